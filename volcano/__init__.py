"""The language: Kubernetes and Volcano API objects, and the vocabulary of events.

Owns the partial structs of API objects (`volcano.objects`) and the events with their catalog (`volcano.events`).
Must not know: time, random, threads, sockets, files, databases, nor any package of this project.
Called by everything else.
"""
