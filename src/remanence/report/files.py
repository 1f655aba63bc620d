"""The files of a run: numbers, pictures and the page, each written atomically."""

from pathlib import Path

from remanence.files import make_folder, write_atomically
from remanence.progress import track_progress
from remanence.report.folders import RESULTS, check_folder
from remanence.report.page import page
from remanence.report.pictures import accuracy_figure, map_boxes, matrices_figure, rendered
from remanence.report.run import Run
from remanence.report.vector import RunPictures


def write_run(run: Run, folder: Path) -> list[str]:
    """Write the results, the pictures and last the page of a run, and return the names of the files."""
    check_folder(folder)
    make_folder(folder)
    run.save(folder / RESULTS)
    written = [folder / RESULTS]
    figures = {"matrices": matrices_figure(run), "accuracy": accuracy_figure(run)}
    drawn = {}
    for name, figure in track_progress(list(figures.items()), "Drawing"):
        for kind in ("png", "svg"):
            drawn[kind, name] = rendered(figure, kind)
            written.append(folder / f"{name}.{kind}")
            write_atomically(written[-1], drawn[kind, name])
    boxes = map_boxes(figures["matrices"])  # in the SVG, which was laid out last
    written.append(folder / "index.html")
    write_atomically(
        written[-1], page(run, RunPictures(drawn["svg", "accuracy"], drawn["svg", "matrices"], boxes)).encode()
    )
    return [str(path) for path in written]
