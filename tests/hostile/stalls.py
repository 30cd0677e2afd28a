"""``python -m tests.hostile.stalls``: how long can one peer keep the others waiting?

Each attack meets a broker of its own. Meanwhile a bystander in a process of its own publishes a message and waits until
it comes back, again and again. A stall is the CPU time that the broker's event loop used meanwhile, less the time for
which the bystander had no processor ("own ms" is the longest such wait; none on a quiet machine). It must not be above
50 ms. Neither broker nor bystander may end, and the broker's memory is bounded. The exit code is 1 when a bound was
passed, and when an attack did not have its effect: a status that is no success, or a count that was not reached.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.hostile import stall_attacks_091, stall_attacks_10, stall_attacks_http, stall_attacks_purges
from tests.kit.stall_field import RESIDENT_BYTES_MAX, STALL_CPU_MS_MAX, Outcome, suffer

ATTACKS = {
    attack.name: attack
    for attack in (
        *stall_attacks_091.ATTACKS,
        *stall_attacks_purges.ATTACKS,
        *stall_attacks_10.ATTACKS,
        *stall_attacks_http.ATTACKS,
    )
}


def lines(outcome: Outcome) -> str:
    """The report of an attack: a line of figures, and one more line when the attack failed or has its own figures."""
    report = outcome.report
    stall = "frozen" if report.frozen else f"{report.longest_cpu_ms:.0f}"
    verdict = "kept" if outcome.passed else "ENDED" if outcome.ended else "ABOVE" if outcome.had_effect else "NO EFFECT"
    figures = (
        f"{outcome.name:<42} {stall:>8} {report.longest_wall_ms:>9.0f} {report.longest_own_wait_ms:>7.0f} "
        f"{report.loop_cpu_s:>7.1f} {report.pings:>7} {outcome.resident_mib:>8.0f}  {verdict}"
    )
    return f"{figures}\n    {outcome.said}" if outcome.said else figures


HEAD = f"{'attack':<42} {'stall ms':>8} {'wall ms':>9} {'own ms':>7} {'cpu s':>7} {'pings':>7} {'RSS MiB':>8}  bounds"


def row(outcome: Outcome) -> dict[str, object]:
    """The same report for programs."""
    return {
        "attack": outcome.name,
        **asdict(outcome.report),
        "resident_mib": round(outcome.resident_mib, 1),
        "had_effect": outcome.had_effect,
        "ended": outcome.ended,
        "said": outcome.said,
        "passed": outcome.passed,
    }


def main(arguments: Sequence[str]) -> int:
    """Carry out the attacks. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile.stalls", description=__doc__)
    parser.add_argument("--only", default="", help="only attacks in whose name this regular expression is found")
    parser.add_argument("--scale", type=float, default=1.0, help="the size of the attacks; default: 1")
    parser.add_argument("--list", action="store_true", help="name the attacks and end")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to this file")
    options = parser.parse_args(arguments)
    chosen = [attack for attack in ATTACKS.values() if re.search(options.only, attack.name)]
    if options.list:
        print(*(f"{attack.name}: {attack.run.__doc__}" for attack in chosen), sep="\n")
        return 0
    if not chosen:
        print(f"no attack has {options.only!r} in its name; --list names them", file=sys.stderr)
        return 2
    print(HEAD, flush=True)
    outcomes = []
    for attack in chosen:
        outcomes.append(suffer(attack, scale=options.scale))
        print(lines(outcomes[-1]), flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps([row(outcome) for outcome in outcomes], indent=2) + "\n")
    failed = [outcome.name for outcome in outcomes if not outcome.passed]
    longest = max(outcome.report.longest_cpu_ms for outcome in outcomes)
    print(
        f"{len(outcomes)} attacks, longest stall {longest:.0f} ms of CPU (at most {STALL_CPU_MS_MAX:.0f}), "
        f"memory at most {RESIDENT_BYTES_MAX // 2**20} MiB; {len(failed)} above a bound or without effect"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
