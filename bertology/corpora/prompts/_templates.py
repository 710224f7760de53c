"""Templates of relations: a sentence with ``[X]`` for the subject and ``[Y]`` for the object."""

from __future__ import annotations

from bertology.corpora.prompts._json_lines import MASK
from bertology.errors import CorpusError, quoted

SUBJECT, OBJECT = "[X]", "[Y]"


def checked_template(template: str, where: str) -> str:
    """The template itself.

    Raises:
        CorpusError: one of the two places is not in it, or more than once.
    """
    for place, what in ((SUBJECT, "subject"), (OBJECT, "object")):
        if template.count(place) != 1:
            count = "no" if place not in template else f"{template.count(place)} times"
            raise CorpusError(
                f"{where}: {count} {place} in {quoted(template)}; write {place} once, where the {what} stands"
            )
    return template


def prompt_of(template: str, subject: str) -> str:
    """The template with its subject, and a mask for its object."""
    # Cut before anything is put in: a subject may itself hold [Y].
    before, after = template.split(SUBJECT)
    return subject.join(part.replace(OBJECT, MASK) for part in (before, after))


def blind_prompt_of(template: str) -> str:
    """The template with a mask for its subject, too; empty where the object comes first.

    Of a blind text the last mask is asked about, which would then be the subject's.
    """
    return prompt_of(template, MASK) if template.index(SUBJECT) < template.index(OBJECT) else ""
