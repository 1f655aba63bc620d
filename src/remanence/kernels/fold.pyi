from remanence.arrays import Array

class Fold:
    def __init__(
        self,
        R: Array,
        z: Array,
        old_R: Array | None,
        old_z: Array | None,
        shrink: float,
        X: Array,
        Y: Array,
        scale: Array | None,
        B: Array | None,
        D: Array | None,
        T: Array,
        rest: Array,
        chunk: int,
        triangle: bool,
        skipped: int = 0,
    ) -> None: ...
    def work(self) -> None: ...
