"""`hopsyncd llm test`: tests whether the configured LLM can answer, and shows the cost of a
question."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from hopsyncd.cli.output import WholeNumber, json_option, print_if_json
from hopsyncd.config.configuration import load_config
from hopsyncd.errors import ConfigError, HopsyncdError
from hopsyncd.printable import make_printable

if TYPE_CHECKING:
    from hopsyncd.evaluation.llm_trial import Trial

_JSON = {
    "yes": "follows the requested form",
    "after a repair": "follows the requested form only after one correction",
    "no": "does not follow the requested form: use a larger model",
}
_LONG_TOKENS = 8000
_LOOPBACK = ("localhost", "127.", "[::1]")


@click.group()
def llm() -> None:
    """Test the LLM configured in [llm]."""


@llm.command()
@click.option(
    "--context",
    "context_tokens",
    type=WholeNumber(0, 1_000_000),
    default=_LONG_TOKENS,
    show_default=True,
    help="Also try a prompt of this many tokens; 0 skips this test.",
)
@click.option("--input-price", type=float, help="The price of a million tokens sent.")
@click.option("--output-price", type=float, help="The price of a million tokens written.")
@json_option
@click.pass_context
def test(
    context: click.Context,
    context_tokens: int,
    input_price: float | None,
    output_price: float | None,
    as_json: bool,
) -> None:
    """Ask the LLM a question about made-up documents, and report the result.

    The report has the time and tokens that a question takes, and whether the LLM writes valid JSON
    and reads long prompts completely. None of your text is sent. If the LLM cannot be used, the
    exit status is 1.

    Example: hopsyncd llm test --input-price 0.40 --output-price 1.60
    """
    from hopsyncd.evaluation.llm_trial import try_llm
    from hopsyncd.models.llm.attempts import find_endpoint_host
    from hopsyncd.models.loading import open_endpoint

    config = load_config(context.obj)
    settings = config.llm
    if not settings.base_url:
        raise ConfigError(
            "There is no LLM to test",
            "`base_url` in [llm] is empty",
            "`hopsyncd doctor` finds LLM servers on this machine, and prints the settings for them",
        )
    endpoint = open_endpoint(settings, config.daemon.data_dir, config.store.url)
    try:
        trial = try_llm(endpoint, settings.tokens_per_question)
        longer, refused = None, ""
        if trial.is_right and context_tokens > settings.tokens_per_question:
            try:
                longer = try_llm(endpoint, context_tokens)
            except HopsyncdError as error:
                refused = f"{error.what}: {error.why}"
    finally:
        endpoint.close()
    host = find_endpoint_host(settings.base_url)
    report = {
        "model": settings.model,
        "endpoint": host,
        "question": asdict(trial),
        "long_prompt": asdict(longer) if longer else None,
        "long_prompt_refused": refused or None,
        "cost": _compute_cost(trial, input_price, output_price),
    }
    if not print_if_json(report, as_json):
        _print_report(report, is_local=host.startswith(_LOOPBACK))
    if not trial.is_right:
        context.exit(1)


def _compute_cost(
    trial: "Trial", input_price: float | None, output_price: float | None
) -> float | None:
    """Compute the price of the question. Returns None if a price is missing."""
    if input_price is None or output_price is None:
        return None
    spent = trial.prompt_tokens * input_price + trial.reply_tokens * output_price
    return round(spent / 1_000_000, 6)


def _print_report(report: Mapping[str, Any], *, is_local: bool) -> None:
    trial = report["question"]
    first = trial["first_s"]
    start = f"{first:.1f} s" if first is not None else "unknown: the LLM does not stream"
    lines = {
        "LLM": f"{make_printable(report['model'])} at {make_printable(report['endpoint'])}",
        "first word": start,
        "whole answer": f"{trial['total_s']:.1f} s",
        "JSON": _JSON[trial["json"]],
        "answer": _format_answer(trial),
        "context": _format_context(report),
        "one question": f"{trial['prompt_tokens']} tokens sent, {trial['reply_tokens']} written",
        "cost": _format_cost(report["cost"], is_local=is_local),
    }
    for name, text in lines.items():
        click.echo(f"{name:<13} {text}")


def _format_answer(trial: Mapping[str, Any]) -> str:
    if trial["problem"]:
        return f"none: {make_printable(trial['problem'])}"
    if not trial["is_right"]:
        shown = make_printable(trial["answer"]) or "not found"
        return f"wrong ({shown}): the LLM did not read all passages, or is too small"
    cited = "with" if trial["has_citations"] else "without all"
    return f"right, {cited} citations"


def _format_context(report: Mapping[str, Any]) -> str:
    trial, longer = report["question"], report["long_prompt"]
    size = trial["estimated_tokens"]
    if not trial["is_right"]:
        return (
            f"a prompt of about {size} tokens may have been cut; raise the context of the server"
            " (Ollama: OLLAMA_CONTEXT_LENGTH=8192)"
        )
    fits = f"a prompt of about {size} tokens is read completely"
    if report["long_prompt_refused"]:
        return (
            f"{fits}; a longer prompt is refused ({make_printable(report['long_prompt_refused'])})"
        )
    if longer is None:
        return fits
    size = longer["estimated_tokens"]
    return (
        f"a prompt of about {size} tokens is read completely"
        if longer["is_right"]
        else (f"{fits}, but a prompt of {size} tokens is not: do not raise tokens_per_question")
    )


def _format_cost(cost: float | None, *, is_local: bool) -> str:
    if cost is not None:
        return f"{cost:.6f} at the given prices"
    if is_local:
        return "none: the LLM runs on this machine"
    return "give --input-price and --output-price, in your provider's currency, to compute the cost"
