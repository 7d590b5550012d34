# The defaults: a miss fetches the whole file, and delivers it to all waiting clients while it arrives.
vcl 4.1;

backend origin {
    .host = "127.0.0.1";
    .port = "UPSTREAM";
}

sub vcl_deliver {
    if (obj.hits > 0) {
        set resp.http.X-Cache = "HIT";
    } else {
        set resp.http.X-Cache = "MISS";
    }
}

# The lines of clients have different ports, and so different Host headers.
sub vcl_hash {
    hash_data(req.url);
    return (lookup);
}
