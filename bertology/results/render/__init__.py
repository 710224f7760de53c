"""Views in every format: terminal, Markdown, LaTeX, HTML, CSV, JSON, figures."""
