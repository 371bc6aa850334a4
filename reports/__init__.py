"""What people see: pages, plots, graphs, sequence diagrams."""
