# SPDX-License-Identifier: GPL-2.0
"""Shell lines that play one direction of a hop as a satellite link, and the check of satlink's results.

The hop's routes lead to a TUN device.  The helper guest/satlink.c reads the packets there and writes
them back, and a second routing table sends them on:

    left --> main table --> sat-right (satlink) --> table 101 --> right

So every packet that leaves by the real device has passed the link.
"""

import json

from ..errors import LabError
from ..scenario.satellite import PROGRAM, SIDES, device_name, links, result_name

# Room in the TUN for the packets that satlink has not read yet; it reads one at a time.
TUN_PACKETS = 20_000
# The time that satlink takes to read a packet and to write it back, beyond plain forwarding, measured
# by bench/measure/calibrate.py.  satlink subtracts it from the delay, if there is one.
OWN_IN_NS, OWN_OUT_NS = 12_000, 8_000


def detour(batch: list[str], hop, peers: dict[str, str], mtu: int) -> list[str]:
    """A hop's ip-batch lines, changed so that its routes lead through satlink.

    peers: device -> the neighbour's address.
    """
    for side, (dev, tun, table) in SIDES.items():
        if not getattr(hop, side).is_satellite:
            continue
        routes = [line for line in batch if line.startswith("route add ") and f" dev {dev}" in line]
        batch = [line for line in batch if line not in routes] + [
            f"tuntap add dev {tun} mode tun",
            f"link set {tun} mtu {mtu} txqueuelen {TUN_PACKETS} addrgenmode none multicast off up",
            f"route add default via {peers[dev]} dev {dev} table {table}",
            # The options of a route, such as a proxy's congestion control, are at its end.
            *[f"route add {line.split()[2]} dev {tun}{line.partition(f' dev {dev}')[2]}"
              for line in routes],
            *([] if any(line.split()[2] == peers[dev] for line in routes)
              else [f"route add {peers[dev]} dev {tun}"])]
    return batch


def need(scenario) -> list[str]:
    """A shell line that ends the run on a machine without satlink; [] if no hop needs satlink."""
    return [f"command -v {PROGRAM} > /dev/null || refuse 'this image has no {PROGRAM}'"] \
        if links(scenario) else []


def start(scenario, prefix: str) -> list[str]:
    """Shell lines that start the links, after the devices exist.  The links wait for time zero."""
    directions = links(scenario)
    if not directions:
        return []
    lines = ["links="]
    for number, (hop, side, stage) in enumerate(directions):
        _, tun, table = SIDES[side]
        name = result_name(hop, side)
        words = [f"seed {scenario.seed * 1000 + number}", f"own {OWN_IN_NS} {OWN_OUT_NS}"]
        if stage.delay_series:
            words.append("steps " + ",".join(f"{round(at * 1e9)}:{round(ms * 1e6)}"
                                             for at, ms in stage.delay_series))
        elif stage.delay_ms:
            words.append(f"delay {round(stage.delay_ms * 1e6)}")
        if stage.merge_ms:
            words.append(f"merge {round(stage.merge_ms * 1e6)} {stage.merge_bytes}")
        words += stage.errors.words if stage.errors else []
        words += stage.mac.words if stage.mac else []
        words.append(f"log $OUT/{name.removesuffix('.json')}.csv")
        lines += [f"ip -{scenario.family} -n {prefix}{hop} rule add iif {tun} lookup {table}",
                  f"as_ns {hop} {PROGRAM} {tun} {' '.join(words)} > $OUT/{name} &",
                  'links="$links $!"']
    return lines


def begin(scenario) -> list[str]:
    """Shell lines that start time zero of the links, when the flows start."""
    return ["kill -USR1 $links"] if links(scenario) else []


def end(scenario, prefix: str) -> list[str]:
    """Shell lines that end the links at the end of a run; the links then write their counters."""
    directions = links(scenario)
    if not directions:
        return []
    # The device drops packets after satlink has ended, so its counters are read before that.
    return [*(f"ip -s -j -n {prefix}{hop} link show {SIDES[side][1]} > $OUT/{device_name(hop, side)}"
              for hop, side, _ in directions),
            "kill $links", "for link in $links; do wait $link; done"]


def check_results(scenario, files: dict[str, bytes]) -> None:
    """Raise LabError if a link left no result, or lost packets that the scenario does not lose."""
    for hop, side, stage in links(scenario):
        where = f"the link {hop} {side}"
        try:
            result = json.loads(files[result_name(hop, side)])
            dropped = json.loads(files[device_name(hop, side)])[0]["stats64"]["tx"]["dropped"]
        except (KeyError, IndexError, ValueError):
            raise LabError(f"{where} left no result") from None
        if result["refused"]:
            raise LabError(f"{where} could not deliver {result['refused']} packets")
        if dropped:
            raise LabError(f"{where}: its device dropped {dropped} packets")
        ways = ["out_packets", "queue_drops", "error_losses", "inside"]
        if stage.merge_ms:
            ways.append("merged")
        missing = result["in_packets"] - sum(result[name] for name in ways)
        if missing:
            raise LabError(f"{where}: {missing} packets are missing in its counters")
