"""The files a run leaves: numbers, pictures and the page, each written in one piece."""

from pathlib import Path

from remanence.files import make_folder, write_atomically
from remanence.progress import track_progress
from remanence.report.folders import RESULTS, check_folder
from remanence.report.page import page
from remanence.report.pictures import accuracy_figure, matrices_figure, rendered
from remanence.report.run import Run


def write_run(run: Run, folder: Path) -> list[str]:
    """Write everything there is to keep of a run; the page last, as it is what people open."""
    check_folder(folder)
    make_folder(folder)
    run.save(folder / RESULTS)
    written = [folder / RESULTS]
    pictures = [("matrices", matrices_figure), ("accuracy", accuracy_figure)]
    for name, draw in track_progress(pictures, "Drawing"):
        figure = draw(run)
        for kind in ("png", "svg"):
            written.append(folder / f"{name}.{kind}")
            write_atomically(written[-1], rendered(figure, kind))
    written.append(folder / "index.html")
    write_atomically(written[-1], page(run).encode())
    return [str(path) for path in written]
