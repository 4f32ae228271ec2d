"""What a study is, where it lives and how it is shown.

``document`` YAML text with the place of every value · ``schema`` the shape of a specification ·
``spec`` the study it describes · ``records`` trials as plain data · ``tables``, ``migrations`` the database ·
``store`` its only owner · ``pareto`` fronts and hypervolume · ``frames`` tables of trials, verdicts and model
errors · ``query`` filters in the user's words · ``figures``, ``report`` the offline HTML page.
"""
