// Nothing: a target needs a file to carry its precompiled header (rooms.cmake).
