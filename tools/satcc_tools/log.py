# SPDX-License-Identifier: GPL-2.0
"""satcc-log: records satcc's events, decodes recordings, and prints the columns of the table."""

import argparse
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import threading

from . import schema, table, tracefs

OK, FAILED, MISSED, INTERRUPTED = 0, 1, 3, 130


def say(text):
    print(f"satcc-log: {text}", file=sys.stderr)


# ---- arguments -------------------------------------------------------------

def event_names(text):
    """segment_sent,ack_received"""
    names = text.split(",")
    for name in names:
        if name not in schema.EVENTS:
            raise argparse.ArgumentTypeError(
                f"no event {name!r} (events: {', '.join(schema.EVENTS)})")
    return [event for event in schema.EVENTS if event in names]


def positive(text):
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not value > 0:
        raise argparse.ArgumentTypeError(f"not a number above 0: {text}")
    return value


def port(text):
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"not a port: {text}")
    return int(text)


def kilobytes(text):
    if not text.isdigit() or int(text) < 8:
        raise argparse.ArgumentTypeError(f"not a size in KiB, 8 or more: {text}")
    return int(text)


def cookie(text):
    """A cookie, decimal, or hexadecimal with 0x, for argparse."""
    try:
        return int(text, 0)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a cookie: {text}") from None


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="satcc-log", description="Record the TCP senders of this host: every segment sent, "
        "ACK received and change of the window. See satcc-log(1).")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def output(command):
        command.add_argument("-o", "--output", metavar="FILE",
                             help="write the table to this file; default: standard output")
        command.add_argument("--format", choices=table.FORMATS,
                             help="default: by the suffix of FILE, else tsv")

    record = commands.add_parser("record", help="record the events of satcc_log",
                                 description="Record until ^C, or until an option ends it.")
    record.add_argument("-t", "--time", type=positive, metavar="SECONDS", help="end after this time")
    record.add_argument("--until-close", type=port, metavar="PORT",
                        help="end when the last connection from or to this port has closed")
    output(record)
    record.add_argument("--raw", metavar="DIR",
                        help="keep the raw pages in this folder; write no table without -o")
    record.add_argument("--events", type=event_names, metavar="EVENT,...",
                        help="default: those of " + ",".join(schema.EVENTS) + " that the kernel has")
    record.add_argument("--port", action="append", default=[], metavar="PORT[-PORT]",
                        help="only sockets with this port at either end; repeat for more ports")
    record.add_argument("--peer", action="append", default=[], metavar="PREFIX",
                        help="only sockets with this peer: an IPv4 prefix, or IPv6 up to /64")
    record.add_argument("--netns", action="append", default=[], metavar="NAME",
                        help="only sockets in this network namespace: a name, path or inode number")
    record.add_argument("--cc", action="append", default=[], metavar="NAME",
                        help="only sockets with this congestion control; * matches any text")
    record.add_argument("--cookie", action="append", default=[], type=cookie, metavar="COOKIE",
                        help="only this socket; ss -e prints cookies, in hex: 0x...")
    record.add_argument("--filter", metavar="EXPRESSION",
                        help="a further condition on the events' fields, in the syntax of tracefs")
    record.add_argument("--buffer", type=kilobytes, default=4096, metavar="KIB",
                        help="kernel buffer of each CPU (default: %(default)s)")
    decode = commands.add_parser("decode", help="make a table of saved raw pages")
    decode.add_argument("folder", metavar="DIR", help="a folder of record --raw, or a run of the lab")
    output(decode)
    commands.add_parser("columns", help="print the table's columns: name, unit, events, meaning")
    return parser.parse_args(arguments)


# ---- commands --------------------------------------------------------------

@contextlib.contextmanager
def output_file(path):
    """A file for the table, which appears under its name when it is complete.  path None: stdout."""
    if path is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    partial = f"{path}.part-{os.getpid()}"
    try:
        with open(partial, "w", encoding="utf-8", newline="") as file:
            yield file
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


def decode(folder, output, form):
    """Write a folder's table.  Returns the exit status."""
    rows = table.Rows(table.Folder(folder))
    with output_file(output) as file:
        table.write(rows, file, table.form_of(output, form))
    return conclude(rows)


def conclude(rows):
    """Print the sums of the rows, which have been read, and return the exit status."""
    counts = ", ".join(f"{count} {event}" for event, count in rows.events.items())
    say(f"{counts}; sockets: {rows.flows}")
    if not rows.missed and not rows.unsure:
        return OK
    more = " or more" if rows.unsure else ""
    say(f"{rows.missed}{more} records are missing: {'; '.join(rows.causes)}")
    say(meaning(rows))
    return MISSED


def meaning(rows):
    """What missing records mean for who reads the table, and how to lose fewer."""
    total = rows.missed + sum(rows.events.values())
    share = "an unknown share" if rows.unsure else f"{100 * rows.missed / total:.2g} %"
    return (f"this is {share} of all; the rows are right, each by itself (cwnd, ssthresh, RTT, "
            "sent_orig, delivered), but a count of rows is too small (segments, retransmissions, "
            "changes), and a gap between two rows may be too long; "
            + ("a larger --buffer or a filter loses fewer" if is_overwritten(rows) else
               "the missing ones may be of sockets that the filters leave out"))


def is_overwritten(rows):
    """Whether the buffer was too small; otherwise the module could not make the records."""
    return any("could not make" not in cause for cause in rows.causes)


def record(options):
    """Record, and decode if a table is wanted.  Returns the exit status."""
    condition = tracefs.filter_of(options.port, options.peer, options.netns, options.cc,
                                  options.cookie, options.filter)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stop.set())
    if options.raw:
        os.makedirs(options.raw, exist_ok=True)
        if any(name.startswith("trace.") for name in os.listdir(options.raw)):
            raise tracefs.TraceError(f"{options.raw} already has a recording")
    beside = os.path.dirname(os.path.abspath(options.output)) if options.output else None
    folder = options.raw or tempfile.mkdtemp(prefix=".satcc-log-", dir=beside)
    try:
        tracefs.record(folder, options.events or schema.EVENTS, condition, options.time,
                       options.until_close, options.buffer, stop, lambda: say("recording; ^C ends it"),
                       None if options.events else say_missing)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, interrupt)
        if options.raw and not options.output:
            rows = table.Rows(table.Folder(folder))
            for _ in rows:
                pass
            return conclude(rows)
        return decode(folder, options.output, options.format)
    finally:
        if not options.raw:
            shutil.rmtree(folder, ignore_errors=True)


def say_missing(event):
    say(f"this kernel has no event {event}; the table has the other events")


def interrupt(*_):
    raise KeyboardInterrupt


def columns():
    """Print the columns of the schema as a table."""
    print("column\tunit\tevents\tmeaning")
    for column in schema.COLUMNS:
        print(column.name, column.unit, ",".join(column.events), column.meaning, sep="\t")
    return OK


def main(arguments=None):
    """Run the program.  Returns the exit status."""
    options = parse(arguments)
    try:
        if options.command == "record":
            return record(options)
        if options.command == "decode":
            return decode(options.folder, options.output, options.format)
        return columns()
    except (tracefs.TraceError, table.TableError) as error:
        say(error)
    except BrokenPipeError:         # the reader of our table has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        say(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    except KeyboardInterrupt:
        return INTERRUPTED
    return FAILED
