module ballast.dev/bench/planes-load

go 1.26.0
