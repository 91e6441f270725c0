"""The one error of this package."""


class DcnrError(Exception):
    """What went wrong, in a sentence; `code` is for programs: "not_found", "unavailable", "invalid_argument" ..."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
