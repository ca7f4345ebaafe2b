"""A small linear model with whole numbers, solved by HiGHS.

HiGHS is no dependency of the product. It is looked for when a model is solved.
"""

import importlib
from collections.abc import Mapping
from typing import Any, Final

from mainstay.model.errors import Rejected

INFINITY: Final = float("inf")
PACKAGE: Final = "highspy"


class SolverMissing(Rejected):
    """What solves the model is not installed."""

    code = "solver_missing"
    what_to_do = f"pip install {PACKAGE}, or make install-dev"


def load() -> Any:
    """The package that solves, or an error that says how to get it."""
    try:
        return importlib.import_module(PACKAGE)
    except ImportError as error:
        raise SolverMissing(f"the package {PACKAGE} is not installed") from error


class Model:
    """Variables and sums of them, all within bounds."""

    def __init__(self) -> None:
        self._costs: list[float] = []
        self._lowers: list[float] = []
        self._uppers: list[float] = []
        self._whole: list[bool] = []
        self._bounds: list[tuple[float, float]] = []
        self._starts: list[int] = [0]
        self._columns: list[int] = []
        self._values: list[float] = []

    def variable(
        self, *, cost: float = 0.0, lower: float = 0.0, upper: float = 1.0, is_whole: bool = True
    ) -> int:
        """A new variable, by its number."""
        self._costs.append(cost)
        self._lowers.append(lower)
        self._uppers.append(upper)
        self._whole.append(is_whole)
        return len(self._costs) - 1

    def charge(self, costs: Mapping[int, float]) -> None:
        """Give variables their cost."""
        for variable, cost in costs.items():
            self._costs[variable] = cost

    def at_least(self, bound: float, parts: Mapping[int, float]) -> None:
        """The sum of variables, each times its factor, is not below `bound`."""
        self._row(bound, INFINITY, parts)

    def at_most(self, bound: float, parts: Mapping[int, float]) -> None:
        """The sum of variables, each times its factor, is not above `bound`."""
        self._row(-INFINITY, bound, parts)

    def _row(self, lower: float, upper: float, parts: Mapping[int, float]) -> None:
        self._bounds.append((lower, upper))
        self._columns += parts.keys()
        self._values += parts.values()
        self._starts.append(len(self._columns))

    def minimum(self) -> float:
        """The least cost there is: proven, not merely found."""
        if not self._costs:
            return 0.0
        solver = load()
        highs = solver.Highs()
        options = {"output_flag": False, "threads": 1, "mip_rel_gap": 0.0, "mip_abs_gap": 1e-9}
        for name, value in options.items():
            highs.setOptionValue(name, value)
        highs.passModel(self._program(solver))
        highs.run()
        status = highs.getModelStatus()
        if status != solver.HighsModelStatus.kOptimal:
            told = highs.modelStatusToString(status)
            raise AssertionError(f"the model was not solved to the end: {told}")
        return float(highs.getInfo().objective_function_value)

    def _program(self, solver: Any) -> Any:
        program = solver.HighsLp()
        program.num_col_, program.num_row_ = len(self._costs), len(self._bounds)
        program.col_cost_ = self._costs
        program.col_lower_ = self._lowers
        program.col_upper_ = self._uppers
        program.row_lower_ = [lower for lower, _ in self._bounds]
        program.row_upper_ = [upper for _, upper in self._bounds]
        matrix = program.a_matrix_
        matrix.format_ = solver.MatrixFormat.kRowwise
        matrix.num_col_, matrix.num_row_ = len(self._costs), len(self._bounds)
        matrix.start_, matrix.index_, matrix.value_ = self._starts, self._columns, self._values
        if any(self._whole):
            kinds = solver.HighsVarType
            program.integrality_ = [
                kinds.kInteger if whole else kinds.kContinuous for whole in self._whole
            ]
        return program
