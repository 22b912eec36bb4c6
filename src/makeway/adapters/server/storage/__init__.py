"""The data file, and the Store over it.

- ``store``: all objects in memory, the file as the truth; ``shared``: the objects that all threads read
- ``group_writer``: how calls become transactions; ``guarding``: whether the file can be written
- ``data_file``, ``layout``, ``checksums``, ``reserve``: the SQLite file
- ``leaving_out``: saves what is readable of a damaged file
- ``lock_file``, ``whereabouts``, ``own_folder``: checks that the file is ours, and still there
- ``beginning``: a data folder and its first content
"""
