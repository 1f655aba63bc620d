from remanence.arrays import Array

def rotate_rows(
    R: Array, z: Array, rest: Array, X: Array, Y: Array, weights: Array, fades: Array, errors: Array
) -> None: ...
def live_rows(
    R: Array, W0: Array, X: Array, Y: Array, S: Array, C: Array, U: Array, done: int, k: int, scales: Array, W: Array
) -> int: ...
