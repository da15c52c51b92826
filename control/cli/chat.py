"""`medley chat`: a conversation with a model in the terminal."""

import os
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from control.cli.output import Output, OutputOption, render, say

if TYPE_CHECKING:
    from control.cli.gateway_client import GatewayClient

KEY_VARIABLE = "MEDLEY_API_KEY"
_NEW = "/new"


@dataclass(slots=True)
class _Answer:
    content: str = ""
    reasoning: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    first_s: float | None = None
    """From the question to the first of it."""
    seconds: float = 0.0


def chat(
    model: Annotated[str | None, typer.Argument(help="Model to ask. Default: the only one that is served.")] = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="Ask this and end. Default: ask for messages, or read stdin.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="System message ahead of the conversation.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens of an answer.")] = None,
    temperature: Annotated[float | None, typer.Option(min=0, max=2, help="Default: the model's own.")] = None,
    gateway: Annotated[
        str | None, typer.Option(help="URL of a gateway. Default: the one of `medley up`.", show_default=False)
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            help=f"Key for it. Default: ${KEY_VARIABLE}; without --gateway, else that of `medley up`.",
            show_default=False,
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Talk to a model through a gateway: answers are shown as they come.

    /new forgets the conversation, Ctrl-C ends an answer, Ctrl-D ends the chat. With `-o json` each answer is an object.
    """
    from control.cli.gateway_client import NoAnswerError

    client = _client(gateway, api_key)
    options = {"max_tokens": max_tokens, "temperature": temperature}
    body = {"model": _chosen(client, model)} | {key: value for key, value in options.items() if value is not None}
    begin = [] if system is None else [{"role": "system", "content": system}]
    if message is not None or not _is_terminal():
        text = message if message is not None else sys.stdin.read()
        if not text.strip():
            raise ValueError("there is nothing to ask: give a message with -m, or on stdin")
        _ask(client, {**body, "messages": [*begin, {"role": "user", "content": text}]}, output)
        return
    say(f"medley: {body['model']} at {client.url}; {_NEW} begins anew, Ctrl-D ends")
    messages = list(begin)
    while (text := _typed()) is not None:
        if text.strip() == _NEW:
            messages = list(begin)
        elif text.strip():
            messages.append({"role": "user", "content": text})
            try:
                answer = _ask(client, {**body, "messages": messages}, output)
            except NoAnswerError as error:
                messages.pop()  # else the next message would stand behind one that has no answer
                say(f"\nmedley: {error}; your message is taken back, the conversation stands as it was before it")
                continue
            messages.append({"role": "assistant", "content": answer.content})


def _client(gateway: str | None, api_key: str | None) -> "GatewayClient":
    """Raises ValueError where no gateway is known."""
    from control.cli.gateway_client import GatewayClient
    from control.db.location import home_directory
    from control.up.gateway_process import running_gateway
    from control.up.home import UpHome

    key = api_key or os.environ.get(KEY_VARIABLE, "")
    if gateway is not None:
        return GatewayClient(gateway, key)
    home = UpHome(home_directory(os.environ) / "up")
    running = running_gateway(home)
    if running is None:
        raise ValueError("no gateway runs on this machine: `medley up` starts one, --gateway URL names another")
    if not key and home.api_key.exists():
        key = home.api_key.read_text().strip()
    return GatewayClient(running.url, key)


def _chosen(client: "GatewayClient", model: str | None) -> str:
    """Raises ValueError where it is not said which of several."""
    from templates_lib.values.nearest_name import nearest_name

    known = client.models()
    if model is None and len(known) == 1:
        return known[0]
    if model is None:
        served = f"serves {', '.join(known)}: say which, `medley chat NAME`" if known else "serves no model yet"
        raise ValueError(f"{client.url} {served}")
    if model not in known:
        raise ValueError(f"{client.url} serves no model {model!r}; {nearest_name(model, known)}")
    return model


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _typed() -> str | None:
    """Return the next message; None at the end."""
    try:
        import readline  # noqa: F401 - gives `input` its history and keys

        return input("> ")
    except EOFError:
        typer.echo()
        return None


def _ask(client: "GatewayClient", body: dict[str, Any], output: Output) -> _Answer:
    """Show an answer as it comes, or as a whole for programs. Ctrl-C ends it where it is."""
    from control.printable import printable

    answer, began_s = _Answer(), time.monotonic()
    shows = output is Output.TABLE
    deltas = client.chat(body)
    try:
        for delta in deltas:
            if answer.first_s is None and (delta.text or delta.reasoning):
                answer.first_s = time.monotonic() - began_s
            answer.content += delta.text
            answer.reasoning += delta.reasoning
            answer.usage.update(delta.usage)
            if shows and delta.reasoning:
                typer.secho(printable(delta.reasoning, keeps="\n\t"), nl=False, dim=True)
            if shows:
                typer.echo(printable(delta.text, keeps="\n\t"), nl=False)
    except KeyboardInterrupt:
        say("\nmedley: ended here")
    finally:
        deltas.close()  # type: ignore[attr-defined]
    answer.seconds = time.monotonic() - began_s
    if not shows:
        sys.stdout.write(render(answer, output))
        return answer
    typer.echo()
    say(_figures(answer))
    return answer


def _figures(answer: _Answer) -> str:
    if not answer.usage or answer.first_s is None:
        return f"medley: {answer.seconds:.1f} s"
    made, prompt = answer.usage["completion_tokens"], answer.usage["prompt_tokens"]
    cached = answer.usage.get("prompt_tokens_details", {}).get("cached_tokens", 0)
    rest_s = answer.seconds - answer.first_s
    rate = f", {(made - 1) / rest_s:.1f} tokens/s" if made > 1 and rest_s > 0 else ""
    known = f", {cached} of them known before" if cached else ""
    return f"medley: first token after {answer.first_s:.2f} s{rate}; {made} tokens, prompt {prompt}{known}"
