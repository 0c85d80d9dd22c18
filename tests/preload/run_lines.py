#!/usr/bin/env python3
"""Runs the lines of a test program's source, and checks what each run must do.

    run_lines.py SOURCE [NAME=TEXT...]

A comment of SOURCE that begins with one of these words belongs to the last RUN above it; WITH and IF belong
to the next one. %NAME stands for its TEXT everywhere; %% is one %. A command ends within `limit` seconds, an hour.

    WITH A B: one 1 | "two words" 2   run once a row, with %A and %B from it; rows of several WITHs are combined
    IF: COMMAND                       otherwise this run is skipped
    RUN [same] [STATUS]: COMMAND      sh runs it in an empty folder; STATUS is 0, another number or a signal's name.
                                      same: it does and says what it does without the variables in front of it
    THEN: COMMAND                     runs afterwards in that folder, and succeeds; what follows is about its output. The rest
                                      is skipped if it ends with 77
    LINES: TEXT | TEXT                the output has each of these lines
    EXPECT [N]: REGEX                 the output has it, N times if there is an N; (?P<name>...) keeps a number or text
    COUNT NAME: REGEX                 keeps how often the output has it
    CHECK: EXPRESSION                 Python's, of what was kept since the beginning of the source
"""
import itertools
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile

LINE = re.compile(r'^(?://|#) ([A-Z]{2,})((?: [\w.% ]+)?): ?(.*)\n')
WORDS = ('WITH', 'IF', 'RUN', 'THEN', 'EXPECT', 'LINES', 'COUNT', 'CHECK')
VARIABLES = re.compile(r'''^(\w+=(?:"[^"]*"|'[^']*'|\S)*\s+)+''')


def replaced(text, names):
    return re.sub(r'%(%|\w+)', lambda m: '%' if m[1] == '%' else names.get(m[1], m[0]), text)


def groups(source):
    """Each RUN: its tables, its conditions, itself and what follows, as (word, argument, text)."""
    found, waiting = [], []
    with open(source, encoding='utf-8') as lines:
        for number, line in enumerate(lines, 1):
            match = LINE.match(line)
            if not match:
                continue
            step = (match[1], match[2].split(), match[3], number)
            if match[1] not in WORDS:
                raise SystemExit(f'{source}:{number}: {match[1]} is none of {" ".join(WORDS)}')
            if match[1] in ('WITH', 'IF'):
                waiting.append(step)
            elif match[1] == 'RUN':
                found.append((waiting, [step]))
                waiting = []
            elif found and not waiting:
                found[-1][1].append(step)
            else:
                raise SystemExit(f'{source}:{number}: {match[1]} follows no RUN')
    if waiting:
        raise SystemExit(f'{source}:{waiting[0][3]}: no RUN follows')
    return found


def rows(tables):
    """The rows of all tables combined, as dictionaries."""
    each = [[dict(zip(table[1], shlex.split(row), strict=True)) for row in table[2].split(' | ')] for table in tables]
    for chosen in itertools.product(*each):
        yield {name: text for row in chosen for name, text in row.items()}


def run(command, folder, limit):
    """Its status, and both streams."""
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(['sh', '-c', command], cwd=folder, stdout=output, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, start_new_session=True) as child:
            try:
                status = child.wait(limit)
                told = signal.Signals(-status).name if status < 0 else str(status)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                told = f'no end after {limit} seconds'
        output.seek(0)
        return told, output.read().decode(errors='replace')


class failure(Exception):
    pass


def performed(steps, names, kept, plain, limit):
    """Runs a RUN and what follows it. `kept` and `plain`, the outcomes without variables, are the whole source's."""
    output = ''
    with tempfile.TemporaryDirectory(prefix='espalier-run.') as folder:
        for word, arguments, text, number in steps:
            arguments, text = [replaced(a, names) for a in arguments], replaced(text, names | {'folder': folder})

            def expect(true, otherwise):
                if not true:
                    raise failure(f'{number}: {word} {" ".join(arguments)}: {text}\n  {otherwise}\n{output}')

            if word in ('RUN', 'THEN'):
                # One program takes the place of the shell, so that its signals are seen.
                several = re.search(r'[;|&]', re.sub(r"""'[^']*'|"[^"]*\"""", '', text))
                status, output = run(text if several else 'exec env ' + text, folder, limit)
                if word == 'THEN' and status == '77':
                    return print('skipped what follows', text)
                wanted = [a for a in arguments if a != 'same'] or ['0']
                expect([status] == wanted, f'the status is {status}')
                if 'same' in arguments:
                    command = VARIABLES.sub('', text)
                    if command not in plain:
                        plain[command] = run('exec env ' + command, folder, limit)
                    expect(plain[command] == (status, output), f'without variables: {plain[command]}, with them')
            elif word == 'LINES':
                missing = set(text.split(' | ')) - set(output.split('\n'))
                expect(not missing, f'without {missing}')
            elif word == 'CHECK':
                expect(eval(text, dict(kept)), f'{kept}')
            else:
                matches = list(re.finditer(text, output, re.MULTILINE))
                if word == 'COUNT':
                    kept[arguments[0]] = len(matches)
                else:
                    expect(len(matches) == int(arguments[0]) if arguments else matches, f'{len(matches)} times in')
                    for name, value in matches[0].groupdict().items() if matches else ():
                        digits = value.replace(',', '')
                        kept[name] = int(digits) if digits.isdigit() else value


def main():
    source = sys.argv[1]
    common = dict(name.split('=', 1) for name in sys.argv[2:])
    limit = float(common.get('limit', 3600))
    failures, runs, kept, plain = 0, 0, {}, {}
    for before, steps in groups(source):
        for row in rows([b for b in before if b[0] == 'WITH']):
            names = common | {name: replaced(text, common) for name, text in row.items()}
            conditions = [replaced(b[2], names) for b in before if b[0] == 'IF']
            unmet = next((c for c in conditions if run(c, '/', limit)[0] != '0'), None)
            if unmet:
                print('skipped, as this fails:', unmet)
                continue
            runs += 1
            try:
                performed(steps, names, kept, plain, limit)
            except failure as what:
                failures += 1
                print(f'{source}:{what}')
    print(f'{failures} of {runs} runs failed')
    return 0 if runs and not failures else 1


if __name__ == '__main__':
    sys.exit(main())
