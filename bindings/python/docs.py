"""Writes src/docs.rs: what `help` says of the members that are written in Rust, out of the stubs.

    python docs.py            writes it
    python docs.py --check    fails where it is not as it would be written
"""

import ast
import inspect
import sys
from pathlib import Path

HERE = Path(__file__).parent
STUB = HERE / "python/koine/_koine.pyi"
TARGET = HERE / "src/docs.rs"

HEAD = '''//! What `help` says of the members of this module. Written by `docs.py` out of the stubs: change them, and run it.
//!
//! Invariant: stubs and programs say the same.

/// The text of a class, or of one of its members.
macro_rules! help {
'''


def fields(tree):
    """The fields of the dictionaries of keyword arguments, those of their bases first, as they are written."""
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            own = [each for each in node.body if isinstance(each, ast.AnnAssign)]
            found[node.name] = [each for base in node.bases for each in found.get(getattr(base, "id", ""), [])] + own
    return found


def signature(node, options):
    """A function as one calls it: with types, without `self`, and with every keyword that it takes."""
    given = node.args
    rest = given.kwarg
    given.kwarg = None
    given.args = [each for each in given.args if each.arg != "self"]
    text = ast.unparse(given)
    if rest is not None and isinstance(rest.annotation, ast.Subscript):
        more = [f"{each.target.id}: {ast.unparse(each.annotation)} = ..." for each in options[rest.annotation.slice.id]]
        text = ", ".join(filter(None, [text, "" if given.kwonlyargs else "*", *more]))
    elif rest is not None:
        text = ", ".join(filter(None, [text, f"**{rest.arg}"]))
    return f"{node.name}({text}) -> {ast.unparse(node.returns)}"


def members(tree):
    """Name and text of all that is told: of classes, functions and their members."""
    options = fields(tree)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, f"{signature(node, options)}\n\n{inspect.cleandoc(ast.get_docstring(node))}"
        elif isinstance(node, ast.ClassDef) and any(getattr(each, "id", "") == "final" for each in node.decorator_list):
            yield node.name, ast.get_docstring(node)
            functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
            for each in functions:
                text = ast.get_docstring(each)
                if each.name.startswith("_") or text is None:
                    continue
                is_property = any(getattr(one, "id", "") == "property" for one in each.decorator_list)
                first = f"{each.name}: {ast.unparse(each.returns)}" if is_property else signature(each, options)
                overloads = [one for one in functions if one.name == each.name and one is not each]
                first = "\n".join([signature(one, options) for one in overloads] + [first])
                yield f"{node.name} {each.name}", f"{first}\n\n{inspect.cleandoc(text)}"


def written():
    arms = []
    for name, text in members(ast.parse(STUB.read_text())):
        text = text.replace("_Key", "str | PathLike").replace("_Path", "str | PathLike").replace("_Told", "Callable | None")
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        arms.append(f'    ({name}) => {{ "{escaped}" }};\n')
    return f"{HEAD}{''.join(arms)}}}\n"


if __name__ == "__main__":
    if "--check" not in sys.argv:
        TARGET.write_text(written())
    elif TARGET.read_text() != written():
        sys.exit("src/docs.rs is not what docs.py writes out of the stubs: run it")
