"""Reports for people: texts, pages, plots, graphs, sequence diagrams."""
