import pathlib


def study_files(folder: pathlib.Path) -> set[str]:
    """What a study wrote, without the library of plots, of which there must be one."""
    names = {path.name for path in folder.iterdir()}
    shared = {name for name in names if name.startswith("plotly-") and name.endswith(".js")}
    if len(shared) != 1:
        raise AssertionError(f"one library of plots is expected: {sorted(names)}")
    return names - shared
