"""Commanding a team from a program, a language model or a person: reports out, orders in, as JSON or plain English."""
