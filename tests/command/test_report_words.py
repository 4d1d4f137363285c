"""A report in words is complete: 24 kinds of questions have the same answers from the text as from the numbers."""

import dataclasses
import math

import pytest
from report_reader import QUESTIONS, answers_of

import echelon
from echelon import CommandConfig, CommandPort, EnvConfig
from echelon.command.pack_policy import OrderRequest, order_targets
from echelon.command.report import in_words
from echelon.command.scripted_orders import chance

LONGEST = 2800
"""Maximum number of characters of a 10v10 report."""
AT_PLACE = ("move", "attack", "defend", "screen")


def truth_of(report):
    """Return the answers from the numbers of a report."""
    packs = [pack for pack in report["packs"] if pack["alive"]]
    mechs = [mech for pack in packs for mech in pack["mechs"]]
    orders = {pack["pack"]: pack["order"] for pack in packs if pack["order"]}
    enemies = report["enemies"]
    distances = [math.dist(pack["place"], report["zone"]["place"]) for pack in packs]

    def told(order):
        at_place = order["kind"] in AT_PLACE and not order["target"]
        return order["kind"], order["target"], tuple(order["place"]) if at_place else None

    return {
        "side": report["team"],
        "map": tuple(report["map"]),
        "time": report["time_s"],
        "left": round(report["ends_s"] - report["time_s"], 1),
        "zone": tuple(report["zone"]["place"]),
        "radius": report["zone"]["radius"],
        "own score": report["score_s"]["own"],
        "enemy score": report["score_s"]["enemy"],
        "to win": report["score_s"]["to_win"],
        "control": (report["control"]["own"], report["control"]["enemy"]),
        "alive": len(mechs),
        "weakest": min(int(f"{mech['hp']:.0%}"[:-1]) for mech in mechs) if mechs else None,
        "under fire": sorted(mech["name"] for mech in mechs if mech["under_fire"]),
        "hulls": {mech["name"]: mech["hull"] for mech in mechs},
        "packs": {pack["pack"]: tuple(pack["place"]) for pack in packs},
        "lost": [pack["pack"] for pack in report["packs"] if not pack["alive"]],
        "nearest pack": round(min(distances), 1) if distances else None,
        "orders": {number: told(order) for number, order in orders.items()},
        "fire": {number: order["fire"] for number, order in orders.items()},
        "ages": {number: order["age_s"] for number, order in orders.items()},
        "late": [pack["pack"] for pack in packs if pack["order"] and not all(one["heard"] for one in pack["mechs"])],
        "enemies": {enemy["name"]: tuple(enemy["place"]) for enemy in enemies},
        "nearest enemy": {
            pack["pack"]: round(min(math.dist(pack["place"], enemy["place"]) for enemy in enemies), 1)
            for pack in packs
            if enemies
        },
        "enemy hulls": sum(enemy["hull"] == "heavy" for enemy in enemies),
    }


def played(config, battles, steps):
    """Return reports of battles with random orders at every second report; orders arrive after the next report."""
    command = CommandConfig(enabled=True, period=10, delay_s=3.0)
    config = dataclasses.replace(config, map_pool=4, command=command)
    port = CommandPort(echelon.commanders(config, num_envs=battles, device="cpu", seed=7))
    reports = []
    for step in range(steps):
        for report in port.reports()[step % 2 :: 2]:
            question = OrderRequest(0, report, order_targets(port.view.env, int(port.is_red[report["battle"]])))
            assert port.order([{**order, "battle": report["battle"]} for order in chance(question)]) == []
        port.step()
        reports += port.reports()
    return reports


pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def reports():
    """100 reports of 5v5 and 100 of 10v10."""
    rules = dataclasses.replace(EnvConfig.small().rules, zone_score_to_win_s=12.5)
    small = dataclasses.replace(EnvConfig.small(), rules=rules)
    return played(small, 10, 10) + played(EnvConfig.standard(), 10, 10)


def test_answers_from_words_match_numbers(reports):
    assert len(reports) == 200 and len(QUESTIONS) >= 20
    for report in reports:
        answers, truth = answers_of(in_words(report)), truth_of(report)
        assert list(answers) == list(QUESTIONS) and answers == truth


def test_sampled_reports_cover_all_questions(reports):
    """No question has the same answer in all reports."""
    truths = [truth_of(report) for report in reports]
    constant = [kind for kind in QUESTIONS if len({str(truth[kind]) for truth in truths}) == 1]
    assert constant == []
    assert any(truth["lost"] for truth in truths) or any(truth["alive"] < 5 for truth in truths)
    assert any(truth["late"] for truth in truths) and any(truth["under fire"] for truth in truths)
    assert {order[0] for truth in truths for order in truth["orders"].values()} >= {"move", "attack", "defend", "hold"}


def test_report_in_words_has_bounded_length(reports):
    lengths = [len(in_words(report)) for report in reports if report["map"][0] > 40]
    assert len(lengths) == 100 and max(lengths) <= LONGEST
