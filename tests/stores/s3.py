"""Starts the emulator of S3, or prints what a bucket contains: the headers of every object."""

import json
import sys

if sys.argv[1] == "start":
    from moto.server import main

    sys.argv = ["moto_server", "-H", "127.0.0.1", "-p", sys.argv[2]]
    main()
else:
    import boto3

    s3 = boto3.client("s3")
    if sys.argv[1] == "create":
        s3.create_bucket(Bucket=sys.argv[2])
    else:
        objects = {}
        for listed in s3.list_objects_v2(Bucket=sys.argv[2]).get("Contents", []):
            head = s3.head_object(Bucket=sys.argv[2], Key=listed["Key"])
            objects[listed["Key"]] = [head.get("CacheControl"), head["ContentType"], head["ContentLength"]]
        print(json.dumps(objects))
