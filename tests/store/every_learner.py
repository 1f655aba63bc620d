"""A small learner of every kind that the registry knows, and what it takes to say that one works."""

import numpy as np

import remanence as rm
from remanence.methods import method_classes
from remanence.store.model_file import ModelFile, to_buffers


def content_of(learner, **rest):
    return b"".join(bytes(part) for part in to_buffers(ModelFile(learner, **rest)))


def data(seed=0, n=12, d=3, c=2):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, c))


def with_gaps(X):
    X = X.copy()
    X[::3, 0] = X[1::4, 1] = np.nan
    return X


def taught(method, ask=True):
    X, Y = data()
    state = method.update(method.init(3, 2), X[:8], Y[:8])
    if ask:
        method.weights(state)
    return method, method.update(state, X[8:], Y[8:])


def corrected():
    X, Y = data()
    method, state = taught(rm.RLS(0.5))
    return method, method.remove(state, X[:2], Y[:2])


def in_float32(method):
    X, Y = data()
    return method, method.update(method.init(3, 2, dtype=np.float32), X, Y)


def of_complex(method):
    X, Y = data()
    return method, method.update(method.init(3, 2, dtype=complex), X + 1j * X[::-1], Y + 1j)


def constrained():
    X, Y = data(n=2)
    method = rm.RLS(forget=0)
    return method, method.update(method.init(3, 2), X, Y)


def gaussian(kind="constant"):
    A, Q, X, R, mean, cov = np.eye(2), 0.1 * np.eye(2), np.ones((1, 2)), np.eye(1), np.zeros(2), np.eye(2)
    if kind == "steps":
        A, X = np.stack([A * (1 - 0.01 * t) for t in range(6)]), np.broadcast_to(X, (6, 1, 2))
    if kind == "lists":
        X, R = [np.ones((1 + t % 2, 2)) for t in range(6)], [np.eye(1 + t % 2) for t in range(6)]
    return rm.kalman.LinearGaussian(A, Q, X, R, mean, cov)


def observed(missing=True):
    Y = data(1, 6, 3, 1)[1]
    if missing:
        Y[2] = np.nan
    return Y


def classifier(labels, method=None, **settings):
    X, _ = data(0, 20)
    model = rm.ContinualClassifier(method, **settings).partial_fit(X[:15], np.array(labels)[np.arange(15) % 3])
    model.predict(X)
    return model.partial_fit(X[15:], np.array(labels)[np.arange(5) % 3])


def images_classifier(**settings):
    X, _ = data(0, 20, 36)
    features = rm.ConvFeatures(3, size=3, pool=2, **settings)
    return rm.ContinualClassifier(features=features).fit(X, np.arange(20) % 3)


def regressor(method=None, outputs=1, **settings):
    X, Y = data(0, 20)
    return rm.ContinualRegressor(method, **settings).fit(X, Y[:, 0] if outputs == 1 else Y)


def encoder(**settings):
    columns = {"size": [1.0, None, 3.0, 4.0], "city": ["Rome", "Oslo", None, "Rome"], "on": ["2024-02-29"] * 4}
    return rm.TableFeatures(text_width=3, missing="indicator", **settings), columns


def of_table():
    features, columns = encoder(columns={"city": "category"})
    return rm.ContinualRegressor(features=features).fit(columns, np.arange(4.0))


def baseline(kind):
    X, _ = data(0, 20)
    return kind.fit(X, np.arange(20) % 3)


LISTED = {
    "LMS": lambda: taught(rm.LMS(0.5)),
    "LMS, steps": lambda: taught(rm.LMS(tuple([0.5] * 40))),
    "LMS, alternating": lambda: taught(rm.LMS(rm.steps.alternating([1.0, 0.0], [1.0, 1.0]))),
    "LMS, float32": lambda: in_float32(rm.LMS(0.5)),
    "APA": lambda: taught(rm.APA(3)),
    "APA, all": lambda: taught(rm.APA(None, 0.5)),
    "ICL": lambda: taught(rm.ICL()),
    "OGD": lambda: taught(rm.OGD(0.1)),
    "ORFit": lambda: taught(rm.ORFit()),
    "ORFit, rank": lambda: taught(rm.ORFit(2)),
    "RLS": lambda: taught(rm.RLS(0.5)),
    "RLS, corrected": corrected,
    "RLS, auto": lambda: taught(rm.RLS("auto")),
    "RLS, forget": lambda: taught(rm.RLS(0.5, 0.9)),
    "RLS, loo": lambda: taught(rm.RLS("loo")),
    "RLS, forget auto": lambda: taught(rm.RLS(0.5, "auto")),
    "RLS, exact": constrained,
    "RLS, float32": lambda: in_float32(rm.RLS()),
    "RLS, complex": lambda: of_complex(rm.RLS(0.5)),
    "LMS, complex": lambda: of_complex(rm.LMS(0.5)),
    "WindowRLS": lambda: taught(rm.WindowRLS(5, 0.5)),
    "BlockLMS": lambda: taught(rm.BlockLMS(3)),
    "BlockLMS, complex": lambda: of_complex(rm.BlockLMS(3)),
    "LowRankRLS": lambda: taught(rm.LowRankRLS(2)),
    "Kalman": lambda: taught(rm.Kalman(0.1)),
    "Kalman, auto": lambda: taught(rm.Kalman("auto", lag=2)),
    "classifier": lambda: classifier([0, 1, 2]),
    "classifier, text": lambda: classifier(["a", "bb", "ö"], rm.RLS("auto"), class_weight={"a": 2.0}),
    "classifier, random": lambda: classifier([0, 1, 2], features=rm.RandomFeatures(7), prior="uniform"),
    "classifier, discriminant": lambda: classifier([0, 1, 2], readout="discriminant"),
    "classifier, auto": lambda: classifier([0, 1, 2], readout="auto"),
    "classifier, balanced": lambda: classifier([0, 1, 2], class_weight="balanced"),
    "classifier, LMS": lambda: classifier([0, 1, 2], rm.LMS(0.1), fit_intercept=False),
    "classifier, lowrank": lambda: classifier([0, 1, 2], rm.LowRankRLS(2), dtype="float32"),
    "classifier, sets": lambda: rm.ContinualClassifier().fit(data(0, 20)[0], [{"a", "b"}, {"b"}, set(), {"c"}] * 5),
    "classifier, conv": lambda: images_classifier(),
    "classifier, conv mirrored": lambda: images_classifier(mirror=True, epsilon=0.3, floor=0.01),
    "classifier, periodic": lambda: classifier([0, 1, 2], features=rm.PeriodicFeatures(7.5, 2, column=1)),
    "classifier, new": lambda: rm.ContinualClassifier(rm.RLS(2.0), features=rm.RandomFeatures(7)),
    "regressor": lambda: regressor(),
    "regressor, intervals": lambda: regressor(intervals=True),
    "regressor, two": lambda: regressor(rm.RLS(0.1, 0.99), 2, dtype="float32"),
    "regressor, Kalman": lambda: regressor(rm.Kalman(0.1)),
    "regressor, table": of_table,
    "TableFeatures": lambda: encoder()[0].fit(encoder()[1]),
    "TableFeatures, new": lambda: encoder(columns={"city": "text"})[0],
    "Finetune": lambda: baseline(rm.Finetune(epochs=2)),
    "Replay": lambda: baseline(rm.Replay(epochs=2, memory=9)),
    "NearestMean": lambda: baseline(rm.NearestMean()),
    "Joint": lambda: baseline(rm.Joint()),
    "StreamingSVD": lambda: rm.StreamingSVD(rank=2).partial_fit(data(0, 20)[0]),
    "PETRELS": lambda: rm.PETRELS(rank=2).partial_fit(with_gaps(data(0, 20)[0])),
    "GROUSE": lambda: rm.GROUSE(rank=2).partial_fit(with_gaps(data(0, 20)[0])),
    "model": lambda: gaussian(),
    "model, steps": lambda: gaussian("steps"),
    "model, lists": lambda: gaussian("lists"),
    "filtered": lambda: rm.kalman.filter(gaussian("steps"), observed()),
    "filtered, many": lambda: rm.kalman.filter(gaussian(), np.stack([observed(False)] * 3 + [observed()])),
    "filtered, lists": lambda: rm.kalman.filter(gaussian("lists"), [np.ones(1 + t % 2) for t in range(6)]),
    "smoothed": lambda: rm.kalman.smooth(gaussian(), rm.kalman.filter(gaussian(), observed())),
    "forecast": lambda: rm.kalman.forecast(gaussian(), rm.kalman.filter(gaussian(), observed()), 3),
}


def registered():
    """Methods of the registry that are not in the list above and have a default for every setting."""
    return {name: lambda cls=cls: taught(cls()) for name, cls in method_classes().items() if name not in LISTED}


PLAIN = LISTED | registered()


def network():
    import torch

    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).double()


def torch_batch(seed):
    import torch

    X, Y = data(seed, 6, 4, 2)
    return torch.from_numpy(X), torch.from_numpy(Y)


def guard(make):
    def made():
        found = make(network())
        found.absorb([torch_batch(0)[0]])
        return found

    return made


def replaying(make):
    def made():
        found = make(network())
        found.absorb([torch_batch(0)])
        return found

    return made


def online(make):
    def made():
        found = make(network())
        found.step(*torch_batch(0))
        return found

    return made


def grown():
    X, Y = data(0, 12, 4, 2)
    found = rm.deep.Growing(4, 2, units=2, candidates=3)
    found.fit(X, Y)
    return found


DEEP = {
    "Growing network": grown,
    "deep.GradientProjection": guard(lambda net: rm.deep.GradientProjection(net, {"0": 0.9}, frozen=["2.bias"])),
    "deep.OWM": guard(lambda net: rm.deep.OWM(net, 0.3)),
    "deep.ScaledProjection": guard(lambda net: rm.deep.ScaledProjection(net, 2.0, 0.99)),
    "deep.OGD": guard(lambda net: rm.deep.OGD(net)),
    "deep.GEM": replaying(lambda net: rm.deep.GEM(net, memory=4)),
    "deep.Constrained": replaying(lambda net: rm.deep.Constrained(net, memory=4, slack=0.1)),
    "deep.EBP": online(lambda net: rm.deep.EBP(net, ridge=0.5, forget=0.99)),
    "deep.LinearizedRLS": online(lambda net: rm.deep.LinearizedRLS(net, ridge=0.5, layers=["2"])),
    "deep.ORFit": online(lambda net: rm.deep.ORFit(net, rank=4)),
    "deep.EKF": online(lambda net: rm.deep.EKF(net, noise=(0.5, 1.0), drift=0.01)),
    "deep.Editor": guard(lambda net: rm.deep.Editor(net, "2", ridge=0.1)),
    "deep.Editor, lowrank": guard(lambda net: rm.deep.Editor(net, "2", rank=2)),
    "deep.EKF, lowrank": online(lambda net: rm.deep.EKF(net, covariance="lowrank", rank=3)),
}


# Using one


def use(learner):
    """Ask, teach, take out and save again, as far as the kind of learner has it."""
    name = type(learner).__name__
    if type(learner) is tuple:
        _use_pair(*learner)
    elif name == "TableFeatures":
        if "encoding_" in vars(learner):
            _finite(learner.transform(table_for(learner)))
        else:
            learner.fit(encoder()[1])
    elif name in ("StreamingSVD", "PETRELS", "GROUSE"):
        X, _ = data(3, 4, vars(learner).get("n_features_in_", 3))
        _finite(learner.partial_fit(X).inverse_transform(learner.transform(X)))
    elif hasattr(learner, "partial_fit"):
        _use_estimator(learner)
    elif name == "LinearGaussian":
        rm.kalman.smooth(learner, rm.kalman.filter(learner, _answers_for(learner)))
    elif name == "Filtered":
        rm.kalman.smooth(learner.model, learner)
        if learner.model.length is None:
            rm.kalman.forecast(learner.model, learner, 2)
    elif type(learner).__module__.startswith("remanence.deep"):
        _use_deep(learner)
    else:
        np.asarray(learner.mean), np.asarray(learner.cov)
    content_of(learner)
    if name not in ("LinearGaussian", "Filtered", "Smoothed", "Forecast"):
        repr(learner)


def table_for(features, rows=4):
    """Rows of a table that an encoder has met, as far as its kinds tell."""
    samples = {"number": [1.0, 2.0], "truth": [True, False], "date": ["2024-02-29"], "text": ["some words"]}
    columns = {}
    for column in features.encoding_.columns:
        one = samples.get(column.kind, list(column.values) or ["new"])
        one = [[1.0] * column.width] if column.kind == "embedding" else one
        columns[column.name] = [one[i % len(one)] for i in range(rows)]
    return columns


def _finite(values):
    values = np.asarray(values)
    assert values.dtype.kind not in "fc" or np.isfinite(values).all(), "an answer that is no number"


def _use_pair(method, state):
    shape = method.weights(state).shape if method.linear else method.template(state).shape
    X, Y = data(2, 3, *shape)
    _finite(method.predict(state, X))
    if type(state).__name__ == "ExactState":  # rows that the constraints so far do not contradict
        Y = method.predict(state, X)
    more = method.update(state, X, Y)
    _finite(method.predict(more, X))
    content_of((method, more))
    if _can_remove(method):
        method.remove(more, X[:1], Y[:1])
    if hasattr(method, "smoothed"):
        method.smoothed(state)


def _use_estimator(learner):
    if vars(learner).get("epochs", 1) > 100:  # it works as long, and takes as much, as it is asked to
        learner.epochs = 100
    if "state_" not in vars(learner) and getattr(vars(learner).get("features"), "width", 0) > 500:
        learner.features = None
    width = vars(learner).get("n_features_in_", 3)
    X, _ = data(3, 4, width)
    if type(vars(learner).get("features_")).__name__ == "TableFeatures":
        X = table_for(learner.features_)
    if "classes_" in vars(learner):
        y = learner.classes_[np.arange(4) % len(learner.classes_)]
        if "multilabel_" in vars(learner):
            y = [{label} for label in y.tolist()] if learner.multilabel_ == "sets" else np.eye(4, len(learner.classes_))
    elif "state_" in vars(learner):
        W = learner.method_.weights(learner.state_)
        y = np.arange(4.0) if learner._flat else np.ones((4, W.shape[1]))
    else:
        learner.partial_fit(X, np.arange(4) % 2)
        y = np.arange(4) % 2
    _finite(learner.predict(X))
    learner.partial_fit(X, y)
    _finite(learner.predict(X))
    content_of(learner)
    if hasattr(learner, "unlearn") and _can_remove(learner.method_):
        learner.unlearn(X, y)


def _can_remove(method):
    return isinstance(method, rm.RLS) and method.forget == 1


def _answers_for(model):
    if type(model.X) is tuple:
        return [np.zeros(len(x)) for x in model.X]
    return np.zeros((model.length or 6, model.X.shape[-2]))


def _use_deep(learner):
    if type(learner).__name__ == "Growing":
        X, Y = data(0, 3, learner.inputs, learner.outputs)
        learner.learn(X, Y)
        _finite(learner.predict(X))
        return
    if type(learner).__name__ == "Editor":
        X, Y = data(0, 2, 5, 2)
        learner.edit(X, Y, "more")
        learner.undo("more")
        _finite(learner.report().preserved_moved)
        return
    import torch

    x, y = torch_batch(5)
    if callable(getattr(learner, "step", None)):
        learner.step(x, y)
        return
    optimizer = torch.optim.SGD(learner.model.parameters(), lr=0.1)
    with learner.protect(optimizer):
        optimizer.zero_grad()
        (learner.model(x) - y).square().mean().backward()
        optimizer.step()
    learner.absorb([(x, y) if learner.takes_targets else x])
    learner.capacity()
