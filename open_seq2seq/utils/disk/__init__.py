"""What may be deleted and replaced on disk: everything in this package that writes a file goes through here.

The rule: only what this package made itself is deleted or overwritten, and it is recognised by its content. Nothing is
written through a link, content is never changed in place, and a new file is one that was not there.

* ``writing`` and ``placing``: a file that gets its name when it is whole; the file before is replaced in one step.
* ``new_file``, ``write_new``, ``copy_new``: files that are not there yet.
* ``new_folder``, ``remove_folder``, ``remove_unfinished``: whole or not there, at any kill.
* ``ListedFolder``: a folder with a list of the files that were written there.
* ``Workplace``: where results are written until they are whole, under a name that tells who else is at it.
* ``open_lock``: a file that processes lock.
"""

from open_seq2seq.utils.disk.files import (
    FOREIGN,
    LINK,
    NO_FILE,
    TEMPORARY,
    ForeignError,
    always,
    check_replaceable,
    checksum_of,
    copy_new,
    new_file,
    open_lock,
    open_stream,
    placing,
    process_folder,
    rewrite_lock,
    sync,
    sync_entries,
    write_new,
    writing,
)
from open_seq2seq.utils.disk.folders import (
    MARK,
    FilesOf,
    Workplace,
    free_name,
    move_aside,
    new_folder,
    remove_folder,
    remove_listed,
    remove_unfinished,
)
from open_seq2seq.utils.disk.listed import ListedFolder

__all__ = ["FOREIGN", "LINK", "MARK", "NO_FILE", "TEMPORARY", "FilesOf", "ForeignError", "ListedFolder", "Workplace",
           "always", "check_replaceable", "checksum_of", "copy_new", "free_name", "move_aside", "new_file",
           "new_folder", "open_lock", "open_stream", "placing", "process_folder", "remove_folder", "remove_listed",
           "remove_unfinished", "rewrite_lock", "sync", "sync_entries", "write_new", "writing"]
