"""Learn and unlearn several tables in one call, as the commands do."""

from remanence.store.jobs.learn import learn_session
from remanence.store.jobs.learn_options import LearnOptions
from remanence.store.jobs.unlearn import unlearn_session
from remanence.tables import expand_paths


def learn_tables(model, data, options=None, drop=False, again=False):
    paths = expand_paths(data)
    with learn_session(model, options or LearnOptions(), drop, again) as job:
        for path in paths:
            job.learn(path)
    return job.report


def unlearn_tables(model, data, sources=(), drop=False, trust=False, accept_loss=False, where=None):
    paths = expand_paths(data)
    with unlearn_session(model, None, sources, drop, trust, accept_loss, where=where) as job:
        for path in paths:
            job.unlearn(path)
    return job.report
