"""HTTP mechanics shared by all routes: problems, limits, parameters, forms, file headers, security.

May import gateway.settings and mesh; never another package of the gateway.
"""
