"""The groups: one nested block model of links and features, from how many to why.

``group_count`` and ``group_search`` say how many groups there are, and whether any;
``group_tree`` is where a fit starts and ``block_model`` the fit, which ``group_map`` keeps and
applies to other graphs; ``mixtures`` makes its memberships shares, and ``contributions`` takes them
apart into reasons. The network (``graphham.model``) reads memberships and knows none of this.
"""
