"""Pages of reports: `browser` (Chromium) · `page_data` (the numbers in a page) · `study_pages` (of many sessions)."""
