"""`mainstay provider new`: a project that works, or nothing."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mainstay.model.errors import Rejected
from mainstay.providers.template.project import files


def written(name: str, folder: Path) -> Path:
    """Make the folder `name` in `folder` with all its files; what is there is never touched."""
    texts = files(name)
    project = folder / name
    if project.exists() or project.is_symlink():
        raise Rejected(f"{project} is there already: choose another name, or --folder")
    try:
        _write(project, texts)
    except OSError as error:
        why = error.strerror or str(error)
        raise Rejected(f"cannot write {project}: {why} (choose another --folder)") from error
    return project


def told(name: str, project: Path) -> str:
    """What was written, and what to do next."""
    names = ", ".join(sorted(path.name for path in project.iterdir()))
    module = name.replace("-", "_")
    command = f"mainstay provider serve {module}_backend:make_backend --insecure"
    return f"Wrote {project}: {names}.\nNext: cd {project} && {command}"


def _write(project: Path, texts: Mapping[str, str]) -> None:
    """Beside its place first, so that a failure half-way leaves nothing there."""
    unfinished = Path(tempfile.mkdtemp(prefix=f".{project.name}-", dir=project.parent))
    try:
        for name, text in texts.items():
            (unfinished / name).write_text(text, encoding="utf-8")
        unfinished.chmod(0o755)  # a temporary folder is its maker's only
        unfinished.rename(project)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
