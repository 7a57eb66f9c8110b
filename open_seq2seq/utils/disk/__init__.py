"""Functions with which all other packages write, replace and delete files.

Only files that OpenSeq2Seq has created are deleted or replaced; they are recognised by their content or, while they are
unfinished, by their name (``.tmp-`` and 16 random digits). The exceptions are caches, and results whose paths the user
has given (``always``). Nothing is written through a symbolic link. The content of files is never changed in place,
except that of lock files, and except that ``append`` adds text at the end, in place of a line that was cut off.

* ``writing`` and ``placing``: a file gets its final name when it is complete; an earlier file is replaced atomically.
  ``fill`` writes text into the file that ``placing`` yields.
* ``write_new`` and ``copy_new`` create a file, and fail if it exists. ``append`` adds to an existing one.
* ``new_folder``, ``remove_folder``: create a folder, or remove one except for the user's files in it. Even if the
  process is killed, no partly written or partly removed folder has the final path. ``remove_unfinished`` removes what
  killed processes have left.
* ``ListedFolder``: a folder with a list of the files that this package wrote there.
* ``open_lock`` opens a lock file, ``lock`` locks it, ``rewrite_lock`` changes its content.
"""

from open_seq2seq.utils.disk.files import (
    FOREIGN,
    LINK,
    TEMPORARY,
    ForeignError,
    always,
    append,
    checksum_of,
    copy_new,
    fill,
    lock,
    naming,
    open_lock,
    open_stream,
    placing,
    process_folder,
    rewrite_lock,
    write_new,
    writing,
)
from open_seq2seq.utils.disk.folders import (
    FilesOf,
    free_name,
    move_aside,
    new_folder,
    remove_folder,
    remove_listed,
    remove_unfinished,
)
from open_seq2seq.utils.disk.listed import ListedFolder

__all__ = ["FOREIGN", "LINK", "TEMPORARY", "FilesOf", "ForeignError", "ListedFolder", "always", "append",
           "checksum_of", "copy_new", "fill", "free_name", "lock", "move_aside", "naming", "new_folder",
           "open_lock", "open_stream", "placing", "process_folder", "remove_folder", "remove_listed",
           "remove_unfinished", "rewrite_lock", "write_new", "writing"]
