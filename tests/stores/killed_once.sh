#!/bin/sh
# Runs `weightstream`. In the first run of part 2, kills it and the worker of Ray that has started it.
case "$*" in
*"--part 2/"*)
    if mkdir "$MARKER" 2>/dev/null; then
        "$WEIGHTSTREAM" "$@" &
        sleep 0.05
        kill -9 $! $PPID
        exit 1
    fi
    ;;
esac
exec "$WEIGHTSTREAM" "$@"
