"""What learns networks, in words: the rows of `rm.list_methods` for the classes of this package.

d × c is a layer of d inputs and c outputs with k protected directions, p are the parameters of a network.
"""

SUMMARIES = {  # class: what it is, cost, memory
    "GradientProjection": (
        "guard of any optimizer: layers move only where inputs of earlier tasks do not reach",
        "2kdc per step and layer",
        "d² + dc per layer",
    ),
    "ScaledProjection": (
        "guard of any optimizer: layers move less along directions that mattered more to earlier tasks",
        "2kdc per step and layer",
        "d² + dc per layer",
    ),
    "OWM": (
        "guard of any optimizer: steps times the inverse of the inputs' second moment, a soft projection",
        "2kdc per step and layer",
        "d² + dc per layer",
    ),
    "OGD": (
        "guard of any optimizer: steps orthogonal to r gradients of earlier outputs",
        "2pr per step",
        "pr",
    ),
    "GEM": (
        "guard of any optimizer: the nearest step along which no loss on b kept samples of a task rises",
        "one gradient of b samples per task and step",
        "b samples per task",
    ),
    "Constrained": (
        "guard of any optimizer: bounds on the losses on b kept samples of a task, with multipliers",
        "one gradient of b samples per task and step",
        "b samples per task",
    ),
    "EBP": ("recursive least squares in every layer of a network", "d² + dc per layer", "d² per layer"),
    "LinearizedRLS": ("recursive least squares over a network linearized at every batch", "p² per output", "p²"),
    "EKF": ("the extended Kalman filter of the weights of a network, which drift", "p² per output", "p²"),
    "ORFit": ("ORFit over the gradients of a network: each sample is fitted, earlier ones stay", "4pr", "pr"),
    "Growing": (
        "a network that adds hidden units and layers until the error is small; w columns",
        "w² + wc",
        "w² + wc",
    ),
}
