"""What people look at: tables, made from records."""

from .table import layer_table, markdown, study_table

__all__ = ["layer_table", "markdown", "study_table"]
