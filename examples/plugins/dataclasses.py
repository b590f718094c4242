"""A plugin of mcpe-gen: Python dataclasses of the types of every package, as PACKAGE.py. It needs Python 3.8, and nothing
else. Options: {"kw_only": true} makes members keyword-only (Python 3.10)."""
import json
import keyword
import re
import sys

SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def name(member):
    """A member's name as Python takes it."""
    word = re.sub(r"\W", "_", member)
    return word + "_" if keyword.iskeyword(word) else "_" + word if not word.isidentifier() else word


def text(t):
    """A type as an annotation; annotations are strings, so that types may come in any order."""
    kind = t["kind"]
    if kind in SCALARS:
        out = SCALARS[kind]
    elif kind == "ref":
        out = t["ref"]
    elif kind == "const":
        out = "Literal[%s]" % repr(t["value"]) if isinstance(t["value"], (str, int)) else "Any"
    elif kind == "enum":
        out = {"string": "str", "number": "float", "boolean": "bool"}.get(t["base"], "Any")
    elif kind == "array":
        out = "List[%s]" % text(t["items"])
    elif kind == "map":
        out = "Dict[str, %s]" % text(t["items"])
    elif kind == "union":
        out = "Union[%s]" % ", ".join(text(v["type"]) for v in t["variants"])
    else:
        out = {"tuple": "List[Any]", "object": "Dict[str, Any]"}.get(kind, "Any")
    return "Optional[%s]" % out if t.get("nullable") else out


def declare(d, options):
    """The lines of one type."""
    t, what = d["type"], (d.get("description") or d["role"]).replace("\\", "\\\\").replace('"', '\\"')
    if t["kind"] != "object" or not t.get("members"):
        return ["# %s" % what.splitlines()[0], "%s = %r" % (d["name"], text(t)), ""]
    lines = ["@dataclass(kw_only=True)" if options.get("kw_only") else "@dataclass", "class %s:" % d["name"], '    """%s"""' % what]
    for m in sorted(t["members"], key=lambda m: not m["required"]):
        of = text(m["type"])
        lines.append("    %s: %r" % (name(m["name"]), of) if m["required"] else "    %s: %r = None" % (name(m["name"]), "Optional[%s]" % of))
    return lines + [""]


def module(package, options):
    lines = ["# Written by a plugin of mcpe-gen. Do not edit.", "from dataclasses import dataclass",
             "from typing import Any, Dict, List, Literal, Optional, Union", ""]
    for d in package["types"]:
        lines += declare(d, options)
    lines += ["PAYLOADS = {"] + ["    %r: %s," % (e["name"], e["payload"]["type"]) for e in package["events"]] + ["}"]
    return "\n".join(lines) + "\n"


def main():
    request = json.load(sys.stdin)
    options = request["options"] or {}
    if request["version"] != 1:
        said = [{"severity": "error", "code": "version", "message": "the model has version %s, and I know 1" % request["version"]}]
        json.dump({"files": [], "diagnostics": said}, sys.stdout)
        return
    json.dump({"files": [{"path": p["name"] + ".py", "text": module(p, options)} for p in request["packages"]]}, sys.stdout)


main()
