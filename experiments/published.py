"""The numbers printed in the paper (WSDM 2022), and the goals this project set itself.

Nothing else in the package holds a typed result. The tables are kept as text, as one would check
them against the print: value~deviation, and a star for p < 0.05 in Table 4.
"""

from __future__ import annotations

from dataclasses import dataclass

TABLE_2 = """
graph     metric    graphsage    gat          hgcn         graphstone   gne           spacene       deepmincut   graphham
cora      accuracy  0.812~0.004  0.829~0.003  0.845~0.003  0.823~0.006  0.787~0.015   0.796~0.011   0.840~0.003  0.853~0.004
cora      micro_f1  0.823~0.004  0.834~0.003  0.854~0.004  0.831~0.005  0.782~0.009   0.788~0.008   0.840~0.004  0.860~0.003
cora      macro_f1  0.785~0.003  0.801~0.003  0.818~0.003  0.798~0.005  0.755~0.0011  0.746~0.009   0.823~0.004  0.824~0.003
citeseer  accuracy  0.703~0.005  0.723~0.004  0.724~0.003  0.720~0.005  0.676~0.0016  0.679~0.0013  0.723~0.004  0.727~0.004
citeseer  micro_f1  0.756~0.004  0.772~0.004  0.781~0.003  0.768~0.006  0.722~0.0011  0.725~0.0010  0.723~0.005  0.783~0.003
citeseer  macro_f1  0.724~0.005  0.739~0.004  0.748~0.003  0.739~0.005  0.706~0.012   0.710~0.010   0.682~0.006  0.746~0.004
pubmed    accuracy  0.788~0.005  0.797~0.004  0.797~0.004  0.794~0.006  0.749~0.011   0.756~0.011   0.723~0.005  0.812~0.005
pubmed    micro_f1  0.802~0.004  0.813~0.004  0.817~0.005  0.809~0.006  0.763~0.009   0.775~0.010   0.723~0.005  0.824~0.005
pubmed    macro_f1  0.794~0.004  0.801~0.005  0.813~0.005  0.804~0.007  0.755~0.003   0.762~0.011   0.712~0.011  0.819~0.004
facebook  accuracy  0.875~0.006  0.894~0.007  0.901~0.006  0.905~0.008  0.864~0.017   0.848~0.018   0.876~0.007  0.918~0.006
facebook  micro_f1  0.894~0.005  0.907~0.006  0.915~0.006  0.918~0.007  0.867~0.014   0.852~0.012   0.879~0.006  0.930~0.006
facebook  macro_f1  0.889~0.005  0.905~0.005  0.909~0.006  0.912~0.007  0.853~0.015   0.846~0.014   0.865~0.006  0.924~0.006
youtube   accuracy  0.732~0.004  0.745~0.004  0.744~0.005  0.739~0.006  0.713~0.017   0.722~0.012   0.742~0.007  0.755~0.005
youtube   micro_f1  0.775~0.004  0.787~0.005  0.782~0.005  0.784~0.006  0.753~0.016   0.759~0.014   0.767~0.007  0.795~0.005
youtube   macro_f1  0.696~0.004  0.710~0.005  0.708~0.005  0.711~0.005  0.677~0.014   0.681~0.011   0.701~0.006  0.721~0.006
amazon    accuracy  0.659~0.005  0.674~0.005  0.652~0.006  0.662~0.007  0.612~0.013   0.632~0.010   0.667~0.005  0.686~0.006
amazon    micro_f1  0.727~0.005  0.743~0.005  0.731~0.006  0.733~0.007  0.687~0.009   0.703~0.010   0.705~0.005  0.742~0.005
amazon    macro_f1  0.297~0.004  0.325~0.005  0.295~0.005  0.305~0.006  0.254~0.005   0.267~0.011   0.303~0.008  0.342~0.005
"""  # noqa: E501

TABLE_3 = """
graph     metric  graphsage    graphstone   asp2vec      graphham
cora      auc     0.849~0.018  0.858~0.015  0.865~0.021  0.869~0.016
cora      mrr     0.674~0.019  0.680~0.022  0.683~0.023  0.692~0.018
citeseer  auc     0.935~0.015  0.944~0.017  0.944~0.015  0.957~0.016
citeseer  mrr     0.762~0.018  0.768~0.017  0.741~0.013  0.778~0.015
pubmed    auc     0.953~0.017  0.962~0.020  0.927~0.014  0.959~0.015
pubmed    mrr     0.886~0.019  0.902~0.017  0.841~0.018  0.906~0.016
facebook  auc     0.954~0.019  0.965~0.020  0.969~0.016  0.966~0.018
facebook  mrr     0.832~0.016  0.844~0.022  0.842~0.024  0.855~0.020
youtube   auc     0.757~0.014  0.763~0.016  0.750~0.013  0.768~0.014
youtube   mrr     0.594~0.022  0.601~0.18   0.587~0.020  0.608~0.019
amazon    auc     0.792~0.015  0.808~0.013  0.818~0.016  0.824~0.014
amazon    mrr     0.579~0.017  0.584~0.015  0.589~0.022  0.593~0.015
"""

TABLE_4 = """
graph     metric    graphham-no-lambda  graphham-no-q  graphham-no-reg
cora      accuracy  -0.017*             -0.007*        -0.012*
cora      micro_f1  -0.021*             -0.016*        -0.020*
cora      macro_f1  -0.012*             -0.007*        -0.008*
citeseer  accuracy  -0.004              -0.003         -0.004
citeseer  micro_f1  -0.008*             -0.003         -0.009*
citeseer  macro_f1  -0.005              -0.002         -0.007*
pubmed    accuracy  -0.017*             -0.013*        -0.007*
pubmed    micro_f1  -0.012*             -0.009*        -0.003
pubmed    macro_f1  -0.012*             -0.008*        -0.004
facebook  accuracy  -0.020*             -0.010*        -0.013*
facebook  micro_f1  -0.016*             -0.011*        -0.012*
facebook  macro_f1  -0.012*             -0.009*        -0.015*
youtube   accuracy  -0.007*             -0.006         -0.003
youtube   micro_f1  -0.007*             -0.005         -0.002
youtube   macro_f1  -0.009*             -0.006         -0.003
amazon    accuracy  -0.008*             -0.003         -0.012*
amazon    micro_f1  -0.010*             -0.002         -0.013*
amazon    macro_f1  -0.007*             -0.003         -0.009*
"""

# Deviations that are probably misprints in the paper; they are kept as printed.
ODDITIES = (
    "Amazon micro-F1 is bold for GraphHAM (0.742) although GAT has 0.743.",
    "DeepMinCut repeats its Citeseer accuracy and micro-F1 on Pubmed.",
    "Deviations such as 0.0011 (GNE, Cora) and 0.18 (GraphSTONE, Youtube) look misplaced.",
    "Accuracy and micro-F1 differ for single-label graphs, where one prediction per node makes "
    "them the same number: the paper's protocol cannot be the plain one.",
)


@dataclass(frozen=True)
class Printed:
    """One printed number.

    Args:
        value: The mean, or in Table 4 the change against the full model.
        deviation: Printed deviation, if any.
        starred: Whether it carries the star of p < 0.05 (Table 4).
    """

    value: float
    deviation: float | None = None
    starred: bool = False


def _parse(text: str) -> dict[tuple[str, str, str], Printed]:
    head, *lines = text.strip().splitlines()
    methods = head.split()[2:]
    found = {}
    for line in lines:
        graph, metric, *values = line.split()
        for method, value in zip(methods, values, strict=True):
            number, _, deviation = value.rstrip("*").partition("~")
            found[graph, metric, method] = Printed(
                float(number), float(deviation) if deviation else None, value.endswith("*")
            )
    return found


# (graph, metric, method) -> what the paper prints.
CLASSIFICATION = _parse(TABLE_2)
LINKS = _parse(TABLE_3)
ABLATION = _parse(TABLE_4)
