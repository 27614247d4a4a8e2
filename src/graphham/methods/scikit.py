"""What scikit-learn asks of an estimator besides its settings: tags, names, frames, a score."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from graphham.errors import InputError
from graphham.methods.parameters import Parameters
from graphham.results.result import FitResult

if TYPE_CHECKING:
    from graphham.graph.graph import Graph

_OUTPUTS = ("default", "pandas", "polars")


class ScikitConventions(Parameters):
    """What pipelines and searches look for; scikit-learn is loaded only when it asks."""

    result_: FitResult
    _graph: Graph | None = None

    def _usual_task(self) -> str:
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        """Say what kind of estimator this is: a classifier if it classifies, and a transformer."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags, TransformerTags

        classifies = self._usual_task() == "classify"
        return Tags(
            estimator_type="classifier" if classifies else "transformer",
            target_tags=TargetTags(required=False, multi_output=True),
            transformer_tags=TransformerTags(),
            classifier_tags=ClassifierTags(multi_label=True) if classifies else None,
            input_tags=InputTags(two_d_array=False),
            no_validation=True,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ids_")

    @property
    def n_features_in_(self) -> int:
        """Number of features of the training graph."""
        return self._trained_on("n_features_in_").num_features

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """Names of the features of the training graph, where they have names."""
        names = self._trained_on("feature_names_in_").feature_names
        if names is None:
            raise AttributeError("the features of the training graph have no names")
        return np.array([str(name) for name in names], dtype=object)

    def _trained_on(self, attribute: str) -> Graph:
        try:
            return self._need_graph(attribute)
        except InputError as error:
            raise AttributeError(str(error)) from None

    def _need_graph(self, what: str) -> Graph:
        raise NotImplementedError

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return a name per column of :meth:`transform`.

        Args:
            input_features: Not used; part of scikit-learn's convention.
        """
        width = self.result_.embedding.shape[1]
        stem = type(self).__name__.lower()
        return np.array([f"{stem}{i}" for i in range(width)], dtype=object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what ``transform`` and ``fit_transform`` return; return self.

        Args:
            transform: ``"default"`` for an array, ``"pandas"`` or ``"polars"`` for a frame (of
                pandas with the ids as index); ``None`` changes nothing.
        """
        if transform is None:
            return self
        if transform not in _OUTPUTS:
            raise InputError(f"there is no output {transform!r}; choose {', '.join(_OUTPUTS)}")
        # The name under which scikit-learn keeps it, so that clones have it too.
        self._sklearn_output_config = {"transform": transform}
        return self

    def _shown_as(self, result: FitResult) -> Any:
        """Return the vectors of a result in the form asked for."""
        wanted = getattr(self, "_sklearn_output_config", {}).get("transform")
        if wanted is None and "sklearn" in sys.modules:
            wanted = sys.modules["sklearn"].get_config()["transform_output"]
        vectors = np.asarray(result.embedding)
        if wanted == "pandas":
            import pandas as pd

            names = self.get_feature_names_out()
            return pd.DataFrame(vectors, columns=names, index=pd.Index(result.ids.tolist()))
        if wanted == "polars":
            import polars as pl

            return pl.DataFrame(vectors, schema=self.get_feature_names_out().tolist())
        return vectors


def class_array(classes: Sequence[Any]) -> npt.NDArray[Any]:
    """Return label values as an array, which is what scikit-learn looks for in ``classes_``."""
    whole = all(isinstance(c, int | np.integer) and not isinstance(c, bool) for c in classes)
    made = np.empty(len(classes), dtype=np.int64 if whole and len(classes) else object)
    made[:] = list(classes)  # text stays Python text: fixed-width text would lose zero bytes
    return made


def share_right(said: Sequence[Any], truth: Sequence[Any]) -> float:
    """Return the share of known labels predicted right, or the micro-F1 of several per node.

    Args:
        said: Predicted label, or list of labels, of every node.
        truth: The true ones; ``None`` where unknown, which does not count.
    """
    if len(said) != len(truth):
        raise InputError(f"there are {len(truth):,} labels for {len(said):,} nodes; give as many")
    pairs = [(a, b) for a, b in zip(said, truth, strict=True) if b is not None and b == b]
    if not pairs:
        raise InputError("no label is known, so there is nothing to score; give nodes with labels")
    if not any(isinstance(value, list | tuple | set) for pair in pairs for value in pair):
        return float(np.mean([a == b for a, b in pairs]))
    both = [(_as_set(a), _as_set(b)) for a, b in pairs]
    right = sum(len(a & b) for a, b in both)
    return 2 * right / max(1, sum(len(a) + len(b) for a, b in both))


def _as_set(value: Any) -> set[Any]:
    if value is None:
        return set()
    return set(value) if isinstance(value, list | tuple | set) else {value}
