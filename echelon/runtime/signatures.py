"""How a class is called, for `inspect.signature`, `help` and editors."""

import inspect


class InitSignature:
    """A class attribute `__signature__`: the arguments of `__init__`, where a metaclass takes `*args, **kwargs`.

    TorchRL makes environments by such a metaclass. An instance has no such attribute: it is called otherwise.
    """

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        _, *arguments = inspect.signature(owner.__init__).parameters.values()  # type: ignore[misc]
        return inspect.Signature(arguments)
