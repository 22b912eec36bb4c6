"""The data file, and the Store over it.

- ``store``: all objects in memory, the file as the truth; ``shared``: what everybody reads; ``group_writer``: how calls
  become transactions; ``guarding``: whether the file can be written
- ``data_file``, ``layout``, ``checksums``, ``reserve``: the SQLite file
- ``leaving_out``: what can be saved of a damaged one
- ``lock_file``, ``whereabouts``, ``own_folder``: that it is ours, and still there
- ``beginning``: a data folder and what is in it from the first start
"""
