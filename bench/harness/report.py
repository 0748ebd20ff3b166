"""Results as JSON lines, one a measure, and as a Markdown report."""
import json
import os
import time


class Report:
    def __init__(self, path, title, command, machine):
        """path: without its ending; .jsonl and .md are written."""
        self.path, self.title, self.command, self.machine = path, title, command, machine
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self.head, self.body, self.notes = None, [], []
        with open(path + ".jsonl", "w") as f:
            f.write(json.dumps({"machine": machine, "command": command}) + "\n")

    def raw(self, **fields):
        with open(self.path + ".jsonl", "a") as f:
            f.write(json.dumps({**fields, "at": time.strftime("%H:%M:%S")}) + "\n")

    def columns(self, *head):
        self.head = head

    def line(self, *cells):
        self.body.append([str(c) for c in cells])
        print("  ".join(f"{h} {c}" for h, c in zip(self.head, self.body[-1]) if c != ""), flush=True)
        self.write()

    def note(self, text):
        self.notes.append(text)
        print(text, flush=True)
        self.write()

    def write(self):
        m = self.machine
        out = [f"# {self.title}", "", f"{m['at']}, commit {m['commit']}{' with changes' if m['changed'] else ''}. "
               f"{m['cores']} cores of {m['cpu']}, {m['memory_gib']} GiB, Linux {m['kernel']}; {m['go']}; {m['java']}.",
               "", f"    {self.command}", ""]
        if self.body:
            out.append("| " + " | ".join(self.head) + " |")
            out.append("|---|" + "--:|" * (len(self.head) - 1))
            out += ["| " + " | ".join(r) + " |" for r in self.body]
            out.append("")
        out += [n + "\n" for n in self.notes]
        with open(self.path + ".md", "w") as f:
            f.write("\n".join(out).rstrip() + "\n")
