"""Tune on many machines: start a scheduler, start workers, list the devices."""

from __future__ import annotations

import click

from portatile import device as devices
from portatile.cli import _console, _options
from portatile.fleet import members, serve
from portatile.records import to_json

_PORT = 8786


@click.group("fleet")
def command() -> None:
    """Tune on many machines, with Dask distributed (extra cluster).

    One machine runs `portatile fleet scheduler`; every machine runs `portatile fleet worker ADDRESS`; then
    `portatile tune WORKLOAD ... --scheduler ADDRESS` tunes on all of them, and `--scheduler local` on this machine's devices.
    """


@command.command()
@click.option("--host", default="0.0.0.0", show_default=True, help="Address of this machine for the workers.")
@click.option("--port", type=_options.Whole(0, 65535), default=_PORT, show_default=True, help="Port; 0 for any free one.")
def scheduler(host: str, port: int) -> None:
    """Run a scheduler until Ctrl-C. It trusts everybody who reaches its port: keep it inside your own network."""
    serve.run_scheduler(host, port, _say)


@command.command(short_help="Run this machine's workers until Ctrl-C.")
@click.argument("address")
@_options.devices(default="all")
@click.option("--compilers", type=_options.Whole(min=0), help="Texts to compile at once. Default: the cores that no device needs.")
def worker(address: str, device: str | tuple[str, ...] | None, compilers: int | None) -> None:
    """Run this machine's workers until Ctrl-C: one for each device, and one that compiles for all.

    Without --device every device takes part; --device none only compiles.
    """
    infos = [] if device == "none" else [opened.info for opened in devices.several(devices.EVERY if device is None else device)]
    serve.run_workers(address, infos, serve.spare_cores(infos) if compilers is None else compilers, _say)


@command.command("devices")
@click.argument("address")
@_options.document()
def list_devices(address: str, as_json: bool) -> None:
    """List the devices of a fleet and who has them."""
    with members.connected(address) as fleet:
        joined, compilers = fleet.members(), fleet.compilers()
    if as_json:
        click.echo(to_json({"members": joined, "compilers": compilers}).decode())
        return
    rows = [
        (member.host, member.device.id, member.device.name, member.device.driver, where)
        for where, member in sorted(joined.items())
        if member.device
    ]
    _console.out.print(_console.table("", ("host", "device", "name", "driver", "worker"), rows, left=5))
    _console.out.print(
        f"{_console.counted(len(rows), 'device')}; {_console.counted(compilers, 'text')} can be compiled at once", markup=False
    )


def _say(text: str) -> None:
    click.echo(text)
