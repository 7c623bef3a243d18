"""Looks at a notebook, edits a copy of one, or runs one. Python 3.8 on.

  python3 notebook.py lint NOTEBOOK README...      result lines
  python3 notebook.py edit NOTEBOOK COPY OLD NEW [OLD NEW]...
      a copy with OLD as NEW in its code; each OLD must be there once
  python3 notebook.py run NOTEBOOK FOLDER          what each cell printed
      needs nbclient, ipykernel, matplotlib and numpy; a picture is shown as
      its size. Exit 1 when a cell stopped with an error.

SPDX-License-Identifier: MIT
"""

import ast
import base64
import json
import re
import struct
import sys

# A line for the shell: "!command" or "name = !command".
SHELL_LINE = re.compile(r"^( *)(?:(\w+) *= *)?!(.*)$", re.M)
# What a notebook may run besides the commands of the READMEs.
HOUSEKEEPING = (r"git clone -q --depth 1 \{REPO\} day20|nvidia-smi -L"
                r"|rm -f \w+\.txt|tee \w+\.txt")


def sources(notebook, kind):
    return ["".join(cell["source"]) for cell in notebook["cells"]
            if cell["cell_type"] == kind]


def as_python(source):
    """A code cell with its shell lines taken out; any magic stays, and fails."""
    return SHELL_LINE.sub(
        lambda m: f"{m[1]}{m[2]} = []" if m[2] else f"{m[1]}pass", source)


def pieces(line):
    """The single commands of a shell line, less redirections and comments."""
    line = re.sub(r"(^|\s)#.*", "", line).replace("2>&1", "")
    return [" ".join(p.split()) for p in re.split(r"&&|\|\||[|;]", line)
            if p.strip()]


def readme_commands(paths):
    """Those of the shell blocks, and what stands in the text as `code`."""
    found = set()
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.M | re.S):
            for line in block.replace("\\\n", " ").splitlines():
                found.update(pieces(line))
        found.update(re.findall(r"`([^`\n]+)`", text))
    return found


def lint(path, readmes):
    """(name, fault or "") for each rule."""
    with open(path, encoding="utf-8") as file:
        try:
            notebook = json.load(file)
        except ValueError as error:
            return [("is JSON", str(error))]
    cells = notebook.get("cells", [])
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    kernel = notebook.get("metadata", {}).get("kernelspec", {}).get("name")
    results = []

    def rule(name, faults):
        results.append((name, "; ".join(faults)))

    form = []
    if notebook.get("nbformat") != 4 or kernel != "python3":
        form.append(f"nbformat {notebook.get('nbformat')}, kernel {kernel}")
    if not code or len(code) == len(cells):
        form.append(f"{len(cells)} cells, {len(code)} of them code")
    rule("is nbformat 4, for kernel python3", form)
    rule("outputs are stripped",
         [f"cell {n} has some" for n, cell in enumerate(cells)
          if cell.get("outputs") or cell.get("execution_count") is not None])

    faults, commands, heads, repo = [], [], set(), None
    for number, source in enumerate(sources(notebook, "code"), 1):
        commands += [m[3] for m in SHELL_LINE.finditer(source)]
        try:
            tree = ast.parse(as_python(source))
        except SyntaxError as error:
            faults.append(f"code cell {number}, line {error.lineno}: {error.msg}")
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                name = getattr(node.targets[0], "id", None)
                if name == "NVCC":
                    heads.add(node.value.value)
                elif name == "REPO":
                    repo = node.value.value
    rule("code cells are Python and ! lines, no magic", faults)
    rule("REPO is left to the course", [] if repo == "" else [f"it is {repo!r}"])

    given = readme_commands(readmes)
    faults = [f"{head!r} compiles nothing in a README" for head in sorted(heads)
              if not any(c.startswith(head + " -std") for c in given)]
    if len(heads) != 2:
        faults.append(f"NVCC is one of {sorted(heads)}, want two")
    ours = [p for line in commands for p in pieces(line)]
    for piece in ours:
        plain = piece.replace("{NVCC}", "nvcc").replace(" {OPTIONS}", "")
        if plain not in given and not re.fullmatch(HOUSEKEEPING, plain):
            faults.append(f"no README gives {plain!r}")
    if not any("{NVCC}" in piece for piece in ours):
        faults.append("nothing is built with NVCC")
    rule("its commands are those of the READMEs", faults)
    return results


def edit(path, copy, changes):
    with open(path, encoding="utf-8") as file:
        notebook = json.load(file)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for old, new in zip(changes[::2], changes[1::2]):
        found = [c for c in cells if old in "".join(c["source"])]
        if len(found) != 1 or "".join(found[0]["source"]).count(old) != 1:
            sys.exit(f"not once in the code: {old}")
        found[0]["source"] = "".join(found[0]["source"]).replace(old, new)
    with open(copy, "w", encoding="utf-8") as file:
        json.dump(notebook, file)


def run(path, folder):
    import nbclient
    import nbformat
    notebook = nbformat.read(path, 4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3",
        resources={"metadata": {"path": folder}})
    code = 0
    try:
        client.execute()
    except nbclient.exceptions.CellExecutionError:
        code = 1
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                print(output.text.replace("\r\n", "\n"), end="")
            elif output.output_type == "error":
                print("\n".join(output.traceback))
            elif "image/png" in output.data:
                png = base64.b64decode(output.data["image/png"])
                print("[picture %d x %d]" % struct.unpack(">II", png[16:24]))
    return code


def main(command, *words):
    if command == "lint":
        for name, fault in lint(words[0], words[1:]):
            print(f"not ok - notebook: {name}: {fault}" if fault else
                  f"ok - notebook: {name}")
        return 0
    if command == "edit":
        return edit(words[0], words[1], words[2:])
    if command == "run":
        return run(*words)
    sys.exit(__doc__)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
