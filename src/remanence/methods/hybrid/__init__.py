"""Methods for samples of several models that are not labelled."""
