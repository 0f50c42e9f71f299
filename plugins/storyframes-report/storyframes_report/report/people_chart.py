"""Who is seen when: a band for each person who has a region with boxes, on the page of a session."""

from __future__ import annotations

import plotly.graph_objects as go

from storyframes_report.report.chart import BLUE, ORANGE, Chart, label
from tasks.study import Boxes, Study, UnusableFileError

_BAND_PX, _AROUND_PX = 34, 90


def people_chart(study: Study, session_id: str) -> tuple[Chart | None, str]:
    """The chart, None where no track of the session has boxes; and which files of boxes cannot be read, and why."""
    tracks = {name: track.box_file for name, track in study.tracks.get(session_id, {}).items() if track.box_file}
    bars: list[tuple[str, str, float, float]] = []
    rows, problems = [], []
    for name, file in tracks.items():
        try:
            boxes = Boxes.read(study.path(file))
        except UnusableFileError as error:
            problems.append(str(error))
            continue
        states = {"seen": boxes.seen & ~boxes.doubtful, "doubtful": boxes.seen & boxes.doubtful}
        bars += [(name, state, *stretch) for state, has in states.items() for stretch in boxes.stretches(has)]
        lengths = [boxes.seconds(has) for has in states.values()]
        rows.append((name, *(f"{seconds:.1f}" for seconds in (*lengths, boxes.time_s[0], boxes.time_s[-1]))))
    if not rows:
        return None, " ".join(problems)
    figure = go.Figure(
        [
            go.Bar(
                name=state,
                orientation="h",
                y=[label(name) for name, of, _, _ in bars if of == state],
                base=[start for _, of, start, _ in bars if of == state],
                x=[end - start for _, of, start, end in bars if of == state],
                customdata=[end for _, of, _, end in bars if of == state],
                marker={"color": colour},
                hovertemplate=f"%{{y}}: {state} from %{{base:.2f}} to %{{customdata:.2f}} s<extra></extra>",
            )
            for state, colour in (("seen", BLUE), ("doubtful", ORANGE))
        ]
    )
    axes = {"xaxis": {"title": "seconds"}, "yaxis": {"autorange": "reversed"}}
    figure.update_layout(barmode="overlay", showlegend=True, **axes)
    alt = "; ".join(f"{name} is surely seen for {sure} s, doubtfully for {unsure} s" for name, sure, unsure, *_ in rows)
    headings = ("track", "seen (s)", "doubtful (s)", "first (s)", "last (s)")
    height = _BAND_PX * len(rows) + _AROUND_PX
    return Chart("people", "Who is seen when", f"{alt}.", figure, headings, rows, height), " ".join(problems)
