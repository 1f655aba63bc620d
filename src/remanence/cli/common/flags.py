"""The options of the command line for the arguments that library errors name."""

FLAGS = {
    "accept_loss": "--accept-loss",
    "again": "--again",
    "class_weight": "--class-weight balanced",
    "cluster": "--cluster ADDRESS",
    "column": "--column NAME",
    "columns": "--column NAME:KIND",
    "data": "--data FOLDER",
    "dialect": "--csv-option NAME=VALUE",
    "drop": "--drop-nan",
    "encoding": "--csv-option encoding=NAME",
    "features": "--features",
    "given": "--format NAME",
    "folder": "--out FOLDER",
    "forget": "--forget",
    "ignored": "--ignore NAME",
    "label": "--label NAME",
    "ledger": "--ledger rows",
    "method": "--method",
    "missing": "--missing indicator",
    "overwrite": "--force",
    "out": "--out FILE",
    "readout": "--readout",
    "ridge": "--ridge",
    "scale": "--scale standard",
    "scores": "--scores",
    "separator": "--label-separator TEXT",
    "settings": "--set NAME=VALUE",
    "sources": "--from FILE",
    "targets": "--target NAME",
    "text_width": "--text-width",
    "trust": "--trust",
    "undo": "--undo pieces",
    "every": "--save-every MINUTES",
    "workers": "--workers",
    "where": "--where NAME=VALUE",
}


def message(problem: Exception) -> str:
    """The message of an error, followed by the options that set the arguments it names."""
    flags = [FLAGS[argument] for argument in getattr(problem, "arguments", ()) if argument in FLAGS]
    if not flags:
        return str(problem)
    return f"{problem} (option{'s' * (len(flags) > 1)} {', '.join(flags)})"
