"""How the installable tree is made: finding and verifying the base (``base``), composing base,
overlay and compiled code into one tree (``compose``), running CMake (``native``), writing
wheels (``archive``), the version (``version``) and the ``setup.py`` commands (``commands``).

Only the standard library is used, except in ``commands``, which extends setuptools."""
