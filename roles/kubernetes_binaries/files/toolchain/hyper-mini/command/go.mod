module ballast.example/command/hyper-mini

// No requirements of its own: ../VERSION/go.mod pins what this is built with, for each version of Kubernetes.
go 1.25.0
