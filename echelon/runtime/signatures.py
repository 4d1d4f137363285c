"""Signatures of classes, for `inspect.signature`, `help` and editors."""

import inspect


class InitSignature:
    """A class attribute `__signature__` with the arguments of `__init__`.

    The attribute is needed for classes whose metaclass has `__call__(*args, **kwargs)`, such as TorchRL environments.
    Instances do not have the attribute, because their `__call__` differs.
    """

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        _, *arguments = inspect.signature(owner.__init__).parameters.values()  # type: ignore[misc]
        return inspect.Signature(arguments)
