"""Several mutants of one C++ file in one text, of which a program chooses one when it runs.

Where the edits of a mutant lie in statements, the statements stand in the text both ways:

    if (::espalier::mutants::chosen(1234)) { the statements with the edits } else { the statements }

A declaration takes all statements behind it in its block along, which may use what it declares. What is not a
statement of a function has no such form: a mutant that edits it needs a program of its own.
"""

import bisect
import re
import zlib

HEADER = '#include "scheduled/chosen.hpp"\n'

TOKEN = re.compile(
    r'(?P<skip>//[^\n]*|/\*.*?\*/|^[ \t]*\#[^\n]*)|R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"|\d[\w\'.]*'
    r"|'(?:\\.|[^'\\\n])+'|\w+|::|->|\S", re.S | re.M)
OPEN = {"(": ")", "[": "]", "{": "}"}
DECLARES = re.compile(
    r"(?:static|constexpr|const|auto|using|typename|struct|class|union|enum|template|thread_local|alignas|volatile)\b"
    r"|(?!(?:return|throw|delete|goto|new|else|co_return)\b)[A-Za-z_][\w:]*\s*(?:<[^;{}]*>)?(?:::\w+)*(?:\s*[*&]+\s*|\s+)"
    r"(?:const\s+)?[A-Za-z_]\w*\s*(?:[=;({,]|\[)")
# What may stand before the brace of a function's or a lambda's body, besides a closing parenthesis.
BEFORE_BODY = {")", "]", "const", "noexcept", "override", "final", "mutable", "else", "do", "try", ";", "{", "}"}


class NoStatement(Exception):
    """The text is not a sequence of statements."""


class Source:
    """The tokens of a text, and what they enclose."""

    def __init__(self, text):
        self.text = text
        found = list(TOKEN.finditer(text))
        self.tokens = [m for m in found if m["skip"] is None]
        self.comments = [m.span() for m in found if m["skip"] is not None]
        self.words = [m[0] for m in self.tokens]
        self.partner = {}
        stack = []
        for i, word in enumerate(self.words):
            if word in OPEN:
                stack.append(i)
            elif word in OPEN.values():
                if not stack or OPEN[self.words[stack[-1]]] != word:
                    raise NoStatement
                self.partner[stack.pop()] = i
        if stack:
            raise NoStatement

    def begin(self, i):
        return self.tokens[i].start()

    def end(self, i):
        return self.tokens[i].end()

    def word(self, i):
        return self.words[i] if i < len(self.words) else ""

    def closes(self, i, what):
        if self.word(i) != what:
            raise NoStatement
        return self.partner[i] + 1

    def statement(self, i, stop):
        """The token behind the statement that begins at token i."""
        word = self.word(i)
        if i >= stop or word in ("else", "catch", "case", "default", "}"):
            raise NoStatement
        if word == "{":
            return self.partner[i] + 1
        if word == "[" and self.word(i + 1) == "[":
            return self.statement(self.partner[i] + 1, stop)
        if word in ("if", "for", "while", "switch"):
            i += 2 if self.word(i + 1) == "constexpr" else 1
            i = self.statement(self.closes(i, "("), stop)
            return self.statement(i + 1, stop) if word == "if" and self.word(i) == "else" else i
        if word == "do":
            i = self.closes(self.statement(i + 1, stop) + 1, "(")
            return self.closes_statement(i, stop)
        if word == "try":
            i = self.closes(i + 1, "{")
            while self.word(i) == "catch":
                i = self.closes(self.closes(i + 1, "("), "{")
            return i
        return self.closes_statement(i, stop)

    def closes_statement(self, i, stop):
        while i < stop and self.words[i] != ";":
            i = self.partner[i] + 1 if self.words[i] in OPEN else i + 1
        if i >= stop:
            raise NoStatement
        return i + 1

    def statements(self, i, stop):
        """(first token, token behind) of each statement between two tokens."""
        found = []
        while i < stop:
            behind = self.statement(i, stop)
            found.append((i, behind))
            i = behind
        return found

    def header_of(self, brace):
        """What stands before a brace, from the end of the statement or declaration before."""
        head = brace
        while head > 0 and self.words[head - 1] not in (";", "{", "}"):
            head -= 1
        return self.text[self.begin(head):self.begin(brace)]

    def is_body(self, brace):
        """Whether the brace opens a block of statements."""
        before = self.words[brace - 1] if brace else ""
        header = self.header_of(brace)
        if re.search(r"->[\w\s:<>*&,]*$", header):
            return True
        if before == ":":  # of a label or an access specifier, or of an initialiser
            return bool(re.search(r"\b(case\b[^;{}]*|default\s*):\s*$", header))
        if before not in BEFORE_BODY or re.match(r"(inline\s+)?(namespace|class|struct|union|enum)\b", header):
            return False
        # `) {` ends an initialiser of a constructor's list too, and is then no different from a body.
        return True

    def blocks_around(self, begin, end):
        """The opening braces of the blocks of statements that contain a range, the innermost first."""
        around = [i for i, j in self.partner.items()
                  if self.words[i] == "{" and self.end(i) <= begin and end <= self.begin(j)]
        for i in sorted(around, reverse=True):
            if self.is_body(i):
                yield i
            elif re.search(r"\b(namespace|class|struct|union|enum)\b", self.header_of(i)):
                return  # no function contains it, whereas braces of a value may lie in one


def narrowed(text, find, replace):
    """(begin, end, replacement) of an edit without the lines, and then the words, that it leaves alone."""
    begin = text.index(find)
    end = begin + len(find)
    for part in (r"[^\n]*\n|[^\n]+", r"\s+|\w+|.", ):
        old, new = re.findall(part, find, re.S), re.findall(part, replace, re.S)
        while old and new and old[0] == new[0]:
            begin += len(old[0])
            old, new = old[1:], new[1:]
        while old and new and old[-1] == new[-1]:
            end -= len(old[-1])
            old, new = old[:-1], new[:-1]
        find, replace = "".join(old), "".join(new)
    return begin, end, replace


def uncut(source, edit):
    """The edit with the whole of the comments in which it begins or ends."""
    begin, end, replacement = edit
    for b, e in source.comments:
        if b < begin < e:
            begin, replacement = b, source.text[b:begin] + replacement
        if b < end < e:
            end, replacement = e, replacement + source.text[end:e]
    return begin, end, replacement


def is_complete(text):
    try:
        source = Source(text)
        source.statements(0, len(source.tokens))
        return True
    except (NoStatement, KeyError):
        return False


def declares(text):
    source = Source(text)
    return any(DECLARES.match(text, source.begin(i)) for i, _ in source.statements(0, len(source.tokens)))


def statements_of(source, edit):
    """The range of the statements that an edit changes, or None."""
    begin, end, replacement = edit
    while begin < end and source.text[begin].isspace():
        begin += 1
    while end > begin and source.text[end - 1].isspace():
        end -= 1
    for brace in source.blocks_around(begin, end):
        try:
            inside = source.statements(brace + 1, source.partner[brace])
        except NoStatement:
            continue  # a switch
        ranges = [(source.begin(i), source.end(j - 1)) for i, j in inside]
        touched = [k for k, (b, e) in enumerate(ranges) if (b < end and begin < e) or b < begin < e]
        first = touched[0] if touched else bisect.bisect_left(ranges, (begin, begin))
        last = touched[-1] + 1 if touched else first
        while True:
            b = min(ranges[first][0], begin) if first < last else begin
            e = max(ranges[last - 1][1], end) if first < last else end
            both = (source.text[b:e], source.text[b:edit[0]] + replacement + source.text[max(edit[1], b):e])
            if all(map(is_complete, both)):
                return b, max(e, ranges[-1][1]) if ranges and any(map(declares, both)) else e
            if last < len(ranges):
                last += 1
            elif first > 0:
                first -= 1
            else:
                break
    return None


def number_of(name):
    return zlib.crc32(name.encode())


def switched(text, mutants):
    """The text with switches for those of the mutants that can have one, and their names.

    mutants: {name: [(old, new), ...]}; each old text occurs once.
    """
    source = Source(text)
    places = []  # (begin, end, name, edits)
    for name, edits in mutants.items():
        narrow = [uncut(source, narrowed(text, *e)) for e in edits]
        ranges = [statements_of(source, e) for e in narrow]
        if None not in ranges:
            places += [(b, e, name, edit) for (b, e), edit in zip(ranges, narrow)]
    groups = []  # [begin, end, {name: edits}]
    for b, e, name, edit in sorted(places, key=lambda p: (p[0], -p[1])):
        if groups and (b < groups[-1][1] or (b == e == groups[-1][1])):
            groups[-1][1] = max(groups[-1][1], e)
        else:
            groups.append([b, e, {}])
        groups[-1][2].setdefault(name, []).append(edit)
    for b, e, of in reversed(groups):
        original = text[b:e]
        branches = ""
        for name, edits in of.items():
            changed = original
            for begin, end, replacement in sorted(edits, reverse=True):
                changed = changed[:max(begin - b, 0)] + replacement + changed[max(end - b, 0):]
            branches += f"if (::espalier::mutants::chosen({number_of(name)}u)) {{ {changed}\n}} else "
        text = f"{text[:b]}{branches}{{ {original}\n}}{text[e:]}"
    if groups:
        text = text.replace("#pragma once\n", "#pragma once\n" + HEADER, 1) if "#pragma once\n" in text else HEADER + text
    return text, {p[2] for p in places}
