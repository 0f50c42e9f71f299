"""The pages of reports: ``benchmark_page`` of runs, ``topics_page`` of stories, ``agreement`` of a study's raters."""
