"""No module needs itself, not even by way of others; `make lint` checks the layers."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp


def test_imports_have_no_circles() -> None:
    """Imports inside functions and those of a package by its own modules count, too."""
    graph = grimp.build_graph("fedkf", exclude_type_checking_imports=True, cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert "fedkf.core.payload" in imports["fedkf.core.server"]
    TopologicalSorter(imports).prepare()  # which says where a circle is
