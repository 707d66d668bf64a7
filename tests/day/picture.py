"""Draws the panels of the dashboard from Prometheus' HTTP API, as Grafana would lay them out. Grafana is not needed."""

import html
import json
import pathlib
import subprocess
import time
import urllib.parse
import urllib.request

COLOURS = ["#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642", "#cca300"]
SPAN = 180


def series(url, expression, now):
    text = urllib.parse.urlencode({"query": expression, "start": now - SPAN, "end": now, "step": 1})
    with urllib.request.urlopen(f"{url}/api/v1/query_range?{text}", timeout=20) as answer:
        for it in json.load(answer)["data"]["result"]:
            yield it["metric"], [(float(at), float(value)) for at, value in it["values"]]


def draw(url, panels, folder):
    """Writes dashboard.html and dashboard.png into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    now, cells = time.time(), []
    for panel, queries in panels:
        at = panel["gridPos"]
        width, height = at["w"] * 60 - 24, at["h"] * 34 - 34
        found = []
        for target, expression in zip(panel["targets"], queries):
            for labels, values in series(url, expression, now):
                name = target["legendFormat"]
                for key, value in labels.items():
                    name = name.replace("{{" + key + "}}", value)
                found.append((name, values))
        if panel["type"] == "stat":
            inside = "".join(
                f"<p><b>{values[-1][1]:g}</b> {html.escape(name)}</p>" for name, values in found[:6]
            )
        else:
            inside = chart(found, width, height - 40, now) + legend(found)
        style = f"grid-column:{at['x'] + 1}/span {at['w']};grid-row:{at['y'] + 1}/span {at['h']}"
        cells.append(f"<section style='{style}'><h2>{html.escape(panel['title'])}</h2>{inside}</section>")
    page = (
        "<style>body{margin:8px;background:#111217;color:#ccc;font:12px sans-serif;display:grid;gap:6px;"
        "grid-template-columns:repeat(24,54px);grid-auto-rows:30px}section{background:#181b1f;padding:6px;overflow:hidden}"
        "h2{font-size:13px;margin:0 0 4px}p{margin:0;display:inline-block;margin-right:12px}b{font-size:22px;color:#7eb26d}"
        "i{font-style:normal;margin-right:8px;font-size:10px}</style>" + "".join(cells)
    )
    (folder / "dashboard.html").write_text(page)
    command = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1470,1300"]
    subprocess.run(
        [*command, f"--screenshot={folder}/dashboard.png", (folder / "dashboard.html").resolve().as_uri()],
        check=True,
        capture_output=True,
        timeout=60,
    )


def chart(found, width, height, now):
    most = max((value for _, values in found for _, value in values), default=0) or 1
    lines = "".join(
        "<polyline fill='none' stroke='{}' points='{}'/>".format(
            COLOURS[number % len(COLOURS)],
            " ".join(f"{(at - now + SPAN) / SPAN * width:.1f},{height - value / most * (height - 12):.1f}" for at, value in values),
        )
        for number, (_, values) in enumerate(found)
    )
    return f"<svg width='{width}' height='{height}'>{lines}<text x='2' y='10' fill='#888' font-size='10'>{most:.4g}</text></svg>"


def legend(found):
    return "<div>" + "".join(
        f"<i style='color:{COLOURS[number % len(COLOURS)]}'>{html.escape(name)}</i>" for number, (name, _) in enumerate(found[:8])
    ) + "</div>"


if __name__ == "__main__":
    raise SystemExit(f"{pathlib.Path(__file__).name}: day.py --pictures DIR draws")
